#!/usr/bin/env python3
"""Makes tests/data/jinja.json: what Jinja2 itself, set up as transformers does, makes of small templates.

needs: pip install jinja2

usage: jinja_fixtures.py OUT.json
"""
import json
import sys

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONTEXT = {
    "talk": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " It's é 🦀 "},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes", "n": 3, "f": 2.5, "tags": ["b", "A", "c"]},
    ],
    "tools": [{"name": "f", "parameters": {"type": "object", "items": {"x": [1, None, True]}, "required": []}}],
    "none_value": None,
    "text": "one two\tthree\n four",
    "numbers": [3, 1, 2],
}

TEMPLATES = r"""
{{ 1 }}{{ 1.5 }}{{ 1e20 }}{{ 1_000 }}{{ 0x1f }}{{ 0b11 }}{{ 0o17 }}{{ 1.0 }}{{ 2e-7 }}{{ -1 }}
{{ true }}{{ True }}{{ none }}{{ None }}{{ missing }}{{ [] }}{{ {} }}{{ () }}{{ (1,) }}{{ 1, 2 }}
{{ 'a' "b" 'c' }}{{ 'it\'s' }}{{ "a\nb\t\\\x41\u00e9" }}{{ 'a\qb' }}
{{ ['a', "it's", 1, 1.0, none, true, {'k': 'v', 1: 2}] }}{{ ('a', 'b') }}{{ "x\n'\"\\" | list }}
{{ 1 + 2 * 3 ** 2 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1 - - 1 }} {{ true + 1 }} {{ +true }} {{ 3 * 'ab' }} {{ 'ab' * -1 }} {{ [1] * 3 }}
{{ 'a' ~ 1 ~ none ~ 1.5 ~ [1] }} {{ 'a' + 'b' ~ 'c' + 'd' }} {{ 1 ~ 2 + 3 if false else 'x' ~ 1 }} {{ [1] + [2] }} {{ (1,) + (2,) }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 'a' != 'b' }} {{ none == none }}
{{ 'a' in 'cat' }} {{ 'a' not in ['a'] }} {{ 'role' in talk[0] }} {{ 2 in numbers }} {{ 'x' in missing }} {{ not 1 in [1] }}
{{ not 1 }} {{ not not 1 }} {{ not not not 1 }} {{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or 'b' }} {{ none or missing or 3 }} {{ not true or true }}
{{ 1 if true }}{{ 1 if false }}{{ 1 if false else 2 if false else 3 }}{{ (1 if true else 2) + 1 }}
{{ talk[0].role }} {{ talk[-1]['content'] }} {{ talk[1].content[1] }} {{ talk[1]['content'][-2] }} {{ talk[9] }} {{ talk.0.role }} {{ talk[0].nothing }}
{{ numbers[1:] }} {{ numbers[:-1] }} {{ numbers[::-1] }} {{ numbers[::2] }} {{ numbers[5:] }} {{ 'abcdef'[1:4] }} {{ 'abcdef'[::-2] }} {{ 'é🦀x'[1:] }} {{ talk[1:][0].role }} {{ numbers[-2:] }} {{ numbers[1:][::-1][0] }}
{{ -1 | abs }} {{ -1.5 | abs }} {{ 'x' | default('y') }} {{ missing | default('y') }} {{ missing | d }} {{ '' | default('y', true) }} {{ none_value | default('z') }}
{{ 'hello wOrld' | capitalize }} {{ 'hello wOrld' | title }} {{ "it's x-ray" | title }} {{ 'AbC' | lower }} {{ 'ß' | upper }} {{ ' x ' | trim }}| {{ 'xxaxx' | trim('x') }}
{{ 'a' | center(6) }}|{{ 'ab' | center(5) }}| {{ [1, 2, 3] | first }} {{ [1, 2, 3] | last }} {{ [] | first }} {{ 'abc' | first }} {{ 'abc' | length }} {{ {'a': 1} | count }} {{ missing | length }}
{{ '1.5' | float }} {{ 'x' | float }} {{ 'x' | float(2.5) }} {{ '42' | int }} {{ '4.7' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 'ff' | int(0, 16) }} {{ 3.99 | int }} {{ ' 12 ' | int }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, false, true) }}|{{ 'a\nb' | indent('>>') }}|{{ 'a\nb' | indent(width=3, first=true) }}
{{ [1, 2, 'x'] | join }} {{ [1, 2] | join(', ') }} {{ talk | join('/', attribute='role') }} {{ 'abc' | join('-') }} {{ {'a': 1, 'b': 2} | join(',') }}
{{ 'abc' | list }} {{ (1, 2) | list }} {{ {'a': 1} | list }} {{ talk | map(attribute='role') | list }} {{ numbers | map('string') | join }} {{ ['a', 'b'] | map('upper') | list }} {{ talk | map(attribute='n', default=0) | list }} {{ ['xax'] | map('replace', 'x', 'y') | list }}
{{ numbers | max }} {{ numbers | min }} {{ ['b', 'A'] | min }} {{ [] | max }} {{ talk | map(attribute='role') | max }} {{ numbers | sum }} {{ [] | sum }} {{ talk | sum('n') if false else 0 }}
{{ talk | selectattr('role', 'equalto', 'user') | list | length }} {{ talk | selectattr('n') | list | length }} {{ talk | rejectattr('n', 'defined') | map(attribute='role') | join(',') }} {{ talk | selectattr('role', 'in', ['user', 'system']) | map(attribute='role') | list }}
{{ numbers | select('odd') | list }} {{ numbers | reject('gt', 1) | list }} {{ [0, 1, ''] | select | list }} {{ [0, 1, ''] | reject | list }} {{ numbers | select('>=', 2) | list }} {{ ['a', none] | reject('none') | list }} {{ numbers | select('==', 3) | list }}
{{ 'aXbX' | replace('X', '-') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc'.replace('', '.') }} {{ 'abc'.replace('b', '') }} {{ 'aaa'.replace('a', 'b', 1) }}
{{ numbers | reverse | list }} {{ 'abc' | reverse }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.1 | round(0, 'ceil') }} {{ 2.19 | round(1, 'floor') }} {{ 1234.5 | round(-2) }} {{ 7 | round }} {{ 1250 | round(-2) }} {{ 7 | round(1, 'ceil') }}
{{ numbers | sort }} {{ numbers | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ talk | sort(attribute='role') | map(attribute='role') | list }} {{ [[2, 'a'], [1, 'b']] | sort }} {{ [1.5, 1, true] | sort }}
{{ {'b': 1, 'a': 2} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ {'b': 1, 'a': 2} | dictsort(reverse=true) }} {{ {'b': 1, 'a': 2} | items | list }}
{{ [1, 2, 1, 'a', 'A'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 2, 3] | slice(2, 'x') | list }}
{% for role, group in talk | groupby('role') %}{{ role }}={{ group | length }};{% endfor %}
{{ 'one two three four' | truncate(10) }} {{ 'one two three' | truncate(9, true) }} {{ 'short' | truncate(5) }} {{ 'one two three four' | truncate(12, false, '!', 0) }} {{ 'a b c' | wordcount }}
{{ '<a href="x">&\'' | e }} {{ '<a>' | safe }} {{ 1 | string + 'x' }} {{ none | string }} {{ [1, 'a'] | string }} {{ 1.0 | string }}
{{ '%s-%s' | format('a', 1) }} {{ '%5.2f|%-5d|%05d|%x|%e|%g' | format(3.14159, 42, 42, 255, 12345.678, 0.0001) }} {{ '%r' % 'a' }} {{ '%d%%' % 5 }} {{ '%s %s' % ('a', 'b') }} {{ '%(a)s' % {'a': 1} }} {{ '%+d' % 3 }} {{ '%.3s' % 'abcdef' }} {{ '%8s|' % 'ab' }} {{ '%g' % 1e10 }} {{ '%g' % 100000.0 }}
{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format(1, 2) }} {{ '{a}'.format(a=1) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('a', 'b', 'c', 42, 3.14159, 1234567) }} {{ '{{}}'.format() }} {{ '{:x}'.format(255) }} {{ '{!r}'.format('a') }} {{ '{:*^7}'.format('ab') }}
{{ tools | tojson }} {{ tools | tojson(indent=2) }} {{ 'é"\n\\/<' | tojson }} {{ {'b': 1, 'a': 1.0} | tojson(sort_keys=true) }} {{ [] | tojson(indent=4) }} {{ {'a': []} | tojson(indent=1) }} {{ 'é' | tojson(ensure_ascii=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4} | tojson }}
{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ text.split() }} {{ ' a  b c '.split(none, 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'abc'.split('</think>')[-1] }} {{ 'a-b-c'.rsplit('-') }}
{{ ' x '.strip() }}| {{ 'xyax'.strip('xy') }} {{ '\n\nab\n'.lstrip('\n') }} {{ 'ab  '.rstrip() }}| {{ 'ab'.startswith('a') }} {{ 'ab'.endswith(('x', 'b')) }} {{ 'ab'.upper() }} {{ 'AB'.lower() }} {{ 'aB'.swapcase() }} {{ 'hello wORLD'.capitalize() }} {{ 'hello wORLD'.title() }}
{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }} {{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('x') }} {{ 'éab'.index('b') }} {{ 'banana'.count('an') }} {{ ','.join(['a', 'b']) }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }}
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ''.isalpha() }} {{ ' \t'.isspace() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3, '.') }} {{ 'a'.rjust(3) }} {{ 'a'.center(4, '*') }} {{ 'ab'.center(5, '*') }}
{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1, 'b': 2}.items() | list }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }}
{% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'x': 1} %}{{ k }}{% endfor %}{% for c in 'ab' %}{{ c }}.{% endfor %}{% for x in missing %}{{ x }}{% else %}empty{% endfor %}
{% for x in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}
{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}{% for x in numbers if x > 1 %}{{ x }}/{{ loop.length }}{% endfor %}{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}
{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}
{% set x = 1 %}{% for i in numbers %}{% set x = i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}{% set ns = namespace(a=1, b='x') %}{% for i in numbers %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}
{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set c %}in {{ a }}{% endset %}{{ c }}{% set d | upper | trim %} up {% endset %}{{ d }}{% with q = 5, r = 6 %}{{ q + r }}{% endwith %}{{ q }}{% filter upper %}f{{ a }}x{% endfilter %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{{ missing }}{% endmacro %}{{ m(1) }}|{{ m(1, c=3) }}|{{ m(b=4) }}|{% set r = m(0) %}{{ r | length }}
{% macro tree(n) %}{{ n }}{% if n > 0 %}({{ tree(n - 1) }}){% endif %}{% endmacro %}{{ tree(4) }}{% macro wrap(x) %}<{{ caller(x) }}>{% endmacro %}{% set z = 'Z' %}{% for i in [1, 2] %}{% call(y) wrap(i) %}{{ y }}{{ z }}{{ i }}{% endcall %}{% endfor %}
{% macro outer(x) %}{% macro inner(y) %}{{ y }}{% endmacro %}{{ inner(x) }}{% endmacro %}{{ outer(3) }}{{ range(3) | list }}{{ range(1, 7, 2) | list }}{{ range(3, 0, -1) | list }}{{ dict(a=1, b=2) }}{{ dict({'a': 1}, b=3).b }}
{{ 1 is defined }} {{ missing is defined }} {{ missing is not defined }} {{ missing is undefined }} {{ none is none }} {{ 'a' is string }} {{ 1 is number }} {{ 1.5 is float }} {{ 1 is integer }} {{ true is integer }} {{ true is boolean }} {{ {} is mapping }} {{ [] is sequence }} {{ 'a' is sequence }} {{ [] is iterable }} {{ 1 is iterable }} {{ none is iterable }}
{{ 4 is even }} {{ 4 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is in [1, 2] }} {{ 'a' is in 'abc' }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 'a' is lower }} {{ 'A' is upper }} {{ none is sameas none }} {{ 1 is lt 2 }} {{ not missing is defined }} {{ 1 is defined and 2 is defined }} {{ range is callable }}
{{ 'yes' if (x is defined) else 'no' }} {{ talk[0] is defined and talk[0].role == 'system' }} {{ talk[2].n is defined }} {{ talk[0].n is defined }} {{ talk[0].n is none }} {{ (talk[2].n or 0) + 1 }} {{ 'n' in talk[2] and talk[2].n > 2 }}
{{ {'a': {'b': [1, 2]}}['a']['b'][1] }} {{ {'a': {'b': 1}}.a.b }} {{ [[1, 2], [3]][0][1] }} {{ tools[0]['parameters']['items'] }} {{ tools[0].name }} {{ (1, 2)[0] }} {{ [{'a': 1}] | map(attribute='a') | first }} {{ [1, 2, 3,] }} {{ {'a': 1,} }}
{{ '}}' }} {{ "{% if %}" }} {{ {'a': {'b': 1}} }} {# a comment #}x{#- y -#} z {{- ' a ' -}} b {{ '' -}}  c
{{ -1 | abs + 1 }} {{ (-1) | abs }} {{ 1 - 2 | abs }} {{ 'a' 'b' | upper }} {{ 2 * 3 | string }} {{ 10 - 2 - 3 }} {{ 100 / 10 / 2 }} {{ (2 + 3) ~ 4 }} {{ 1 ~ 2 * 3 }}
{{ talk | length > 2 }} {{ talk | map(attribute='content') | map('length') | sum }} {{ (talk | last).role }} {{ talk[-1].tags | sort | join }} {{ talk[-1].tags | reverse | join }}
{% raw %}{{ x }}{% if %}{% endraw %}|{%- raw -%}  y  {%- endraw -%}  |
{% generation %}g{{ 1 }}{% endgeneration %}{% do numbers | length %}{% block b %}in{% endblock %}{% autoescape false %}<{% endautoescape %}
""".strip("\n").split("\n")

# White space, with line ends in them.
TEMPLATES += [
    "a\n  {% if true %}\n    b\n  {% endif %}\nc\n",
    "a\n  {%- if true -%}\n    b\n  {%- endif -%}\nc\n",
    "a\n  {%+ if true +%}\n    b\n  {%+ endif +%}\nc\n\n",
    "  {# c #}\n  x {# d #}\n\ty {{ 1 }}\n{{ 2 }}\n",
    "x {% if true %} y {% endif %} z\r\n{% if true %}\r\nw\r\n{% endif %}\r\n",
    "{% for i in [1, 2] %}\n\n  {{ i }}\n\n{% endfor %}\n\n",
    "  {% raw %}\n  {{ x }}\n  {% endraw %}\n  end",
    "{#- a -#}\n b \n{#+ c +#}\n d",
    "{{- 1 }}\n{{ 2 -}}\n\n 3\n{%- set x = 1 %}\n{{ x }}",
    "\n\n{% set x = 1 %}\n\n{{ x }}\n",
    "a {%- if true %}\n b{% endif -%}   \u00a0 c",
    "{% set x = [\n  1,\n  2,\n] %}\n{{ x }}",
    "{% if false %}\n{% elif true %}\n  e\n{% else %}\n  f\n{% endif %}\n",
]


def environment():
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser):
            lineno = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(lineno)

        def _write(self, caller):
            return caller()

    # `do` is an extension that transformers does not load.
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols, "jinja2.ext.do"])

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made.filters["tojson"] = tojson
    return made


def main():
    made = environment()
    cases = []
    for template in TEMPLATES:
        expected = str(made.from_string(template).render(**CONTEXT))
        cases.append({"template": template, "expected": expected})
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"context": CONTEXT, "cases": cases}, file, ensure_ascii=False, indent=1)
        file.write("\n")


main()
