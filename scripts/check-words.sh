#!/usr/bin/env bash
# The rules of prose that a program can check, as errors: the private words of scripts/words.txt, lines over 120 columns
# in all languages, sentences over 40 words in the documentation, and spelling by `typos`.
set -euo pipefail
cd "$(dirname "$0")/.."

TYPOS_VERSION=1.52.0

# The tracked files, and new ones that git does not ignore; outside of a repository, all of them.
files() {
  git ls-files -co --exclude-standard 2>/dev/null || find . -type f -not -path './target/*' | sed 's|^\./||'
}

# Exits 0 when nothing is wrong.
check() {
  files | perl -CSD -e '
    use strict; use warnings; use utf8;
    use constant { COLUMNS => 120, WORDS => 40 };
    my (@rules, $faults);
    sub fault { my ($file, $line, $text) = @_; print "$file:$line: $text\n"; $faults++ }

    open my $table, "<", "scripts/words.txt" or die "scripts/words.txt: $!";
    while (<$table>) {
      next if /^#/ or not /\S/;
      chomp;
      my ($pattern, $instead, $where) = split / {2,}/;
      die "scripts/words.txt:$.: a pattern, what to write, and docs, all or code\n" unless ($where // "") =~ /^(docs|all|code)$/;
      push @rules, { pattern => qr/(?<![\w-])(?:$pattern)(?![\w-])/i, instead => $instead, where => $where };
    }

    # What is prose in a line of source: its comments.
    sub comment { my ($text) = @_; $text =~ m{(?://+!?|/\*+|^\s*\*|^\s*#+)\s*(.*)} ? $1 : "" }

    # Sentences of a paragraph of Markdown. A list, a table row or a heading is none.
    sub sentences {
      my ($file, $line, $paragraph) = @_;
      $paragraph =~ s/\[([^\]]*)\]\([^)]*\)/$1/g;
      for my $sentence (split /(?<=[.!?:;])\s+(?=[\x{201c}"`*(\[]*[A-Z0-9`])/, $paragraph) {
        my $count = () = $sentence =~ /[\w\x{2019}\x27.-]*\w[\w\x{2019}\x27.\/-]*/g;
        fault($file, $line, "a sentence of $count words, at most ${\WORDS}: " . substr($sentence, 0, 60) . "…") if $count > WORDS;
      }
    }

    while (my $file = <STDIN>) {
      chomp $file;
      next unless $file =~ /\.(rs|h|m|c|metal|py|sh|md|toml|yml)$|(^|\/)Makefile$|^\.ci\//;
      # Chat templates are as their models have them.
      next if $file =~ m{^(tests/data|target|fuzz/corpus)/|^scripts/chat_fixtures\.py$} or not -f $file;
      my $docs = $file =~ /\.md$/;
      my $prose_file = $docs || $file =~ m{^include/};
      open my $in, "<", $file or die "$file: $!";
      my ($code, $quoted, $continued, $paragraph, $start) = (0, 0, 0, "", 0);
      while (my $line = <$in>) {
        chomp $line;
        my $number = $.;
        my $fence = $docs && $line =~ /^\s*```/;
        $code = !$code if $fence;
        my $is_code = $docs && ($code || $fence || $line =~ /^    / && $paragraph eq "");

        # Long strings and addresses cannot be broken, and tables of Markdown neither.
        my $rest = $line;
        my $in_string = $quoted;
        if ($file =~ /\.(rs|py)$/) {
          $quoted = !$quoted if $quoted ? $line =~ /"#|"""/ : $line =~ /\br#+"(?!.*"#)|^(?:(?!""").)*"""(?:(?!""").)*$/;
        }
        $rest =~ s/r#+".*?"#+/""/g if $file =~ /\.rs$/;
        $rest =~ s/\x27[^\x27]*\x27/""/g if $file =~ /\.(py|sh)$/;
        $rest =~ s/"(?:[^"\\]|\\.)*"?/""/g unless $docs or $line =~ m{^\s*(//|\*|/\*|#)};
        $rest =~ s{https?://\S+}{}g;
        $rest = "" if $file =~ /\.rs$/ && ($continued || $line =~ /\\$/ || $line =~ m{^\s*//[!/] \|});
        $continued = $line =~ /\\$/;
        $rest = "" if $in_string || $docs && ($is_code || $line =~ /^\s*\|/ || $line =~ /^!?\[[^\]]*\][(:]/);
        my $width = length $line;
        fault($file, $number, "$width columns, at most ${\COLUMNS}") if $width > COLUMNS && length $rest > COLUMNS;

        my $text = $docs ? ($is_code ? "" : $line) : $prose_file ? $line : comment($line);
        $text =~ s/`[^`]*`|\]\([^)]*\)/`…`/g if $docs;
        for my $rule (@rules) {
          my $names = $rule->{where} eq "code";
          next if $names ? $docs : !$prose_file && $rule->{where} ne "all";
          next if $file =~ m{^scripts/(words\.txt|check-words\.sh)$};
          fault($file, $number, "\"$&\": write $rule->{instead}") if ($names ? $line : $text) =~ $rule->{pattern};
        }

        next unless $docs;
        my $breaks = $is_code || $line !~ /\S/ || $line =~ /^\s*(\||#|[-*] |\d+\. |!?\[[^\]]*\]:)/;
        if ($breaks && $paragraph ne "") { sentences($file, $start, $paragraph); $paragraph = "" }
        next if $is_code || $line !~ /\S/ || $line =~ /^\s*(\||#|!?\[[^\]]*\]:)/;
        $start = $number if $paragraph eq "";
        $line =~ s/^\s*(?:[-*]|\d+\.)?\s+//;
        $paragraph .= ($paragraph eq "" ? "" : " ") . $line;
      }
      sentences($file, $start, $paragraph) if $docs && $paragraph ne "";
    }
    exit($faults ? 1 : 0);
  '
}

# `typos` from the path, else from PyPI into target/tools.
spelling() {
  local tools=target/tools/typos-$TYPOS_VERSION
  if command -v typos >/dev/null; then
    typos "$@"
    return
  fi
  if [ ! -x "$tools/bin/typos" ]; then
    python3 -m pip --version >/dev/null 2>&1 || scripts/setup.sh lint
    command -v python3 >/dev/null && python3 -m pip install --quiet --disable-pip-version-check \
      --root-user-action ignore --target "$tools" "typos==$TYPOS_VERSION" || {
      echo "spelling: typos is missing and pip cannot install it; get it with 'cargo install typos-cli' and try again" >&2
      return 1
    }
  fi
  "$tools/bin/typos" "$@"
}

status=0
check || status=1
spelling --format brief || status=1
exit "$status"
