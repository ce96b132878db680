//! Findings in SARIF 2.1.0, the format of code review and of GitHub's code scanning (OASIS, docs.oasis-open.org/sarif).

use serde_json::{Value as Json, json};

use super::finding::{Finding, Rule};

pub fn report(findings: &[Finding]) -> Json {
    let rules = Rule::ALL.map(|rule| {
        json!({
            "id": rule.name(),
            "shortDescription": { "text": rule.summary() },
            "defaultConfiguration": { "level": rule.level() },
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "ironbridge metal check",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            } },
            "columnKind": "utf16CodeUnits",
            "results": findings.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}

fn result(finding: &Finding) -> Json {
    let text = match &finding.kernel {
        Some(kernel) => format!("{} (kernel {kernel})", finding.message),
        None => finding.message.clone(),
    };
    // A region begins at line 1 at least.
    let mut region = json!({ "startLine": finding.line.max(1) });
    if finding.column > 0 {
        region["startColumn"] = finding.column.into();
    }
    json!({
        "ruleId": finding.rule.name(),
        "ruleIndex": Rule::ALL.iter().position(|rule| *rule == finding.rule),
        "level": finding.rule.level(),
        "message": { "text": text },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(&finding.file) },
            "region": region,
        } }],
    })
}

/// A path as a reference of RFC 3986: relative ones stay relative to the repository.
fn uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(byte.into());
            }
            other => uri += &format!("%{other:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_become_references() {
        assert_eq!(uri("./a b/c.metal"), "a%20b/c.metal");
        assert_eq!(uri("/x/c:d"), "file:///x/c%3Ad");
    }
}
