//! Expectations as text for people and as JUnit XML for CI systems.

use crate::simulate::{Expect, Unmet, escaped};

use super::{Case, Outcome, golden::Answer};

/// What does not hold: what was expected, what happened, and the first event that goes against it.
pub(super) fn failures(unmet: &[Unmet]) -> String {
    let mut text = String::new();
    for unmet in unmet {
        text.push_str(&format!("expectation failed: {}\n", in_words(unmet)));
    }
    text
}

fn in_words(unmet: &Unmet) -> String {
    let who = unmet.job.as_ref().map_or("all jobs", |job| job.as_str());
    let mut text = format!(
        "{who}: {}\n  expected {}\n  found    {}",
        unmet.key, unmet.expected, unmet.found
    );
    if let Some(event) = &unmet.event {
        text.push_str(&format!("\n  first    {event}"));
    }
    text
}

/// One line of what is expected.
pub(super) fn title(expect: &Expect) -> String {
    let who = expect.job.as_ref().map_or("all jobs", |job| job.as_str());
    let conditions = expect.conditions().into_iter();
    let conditions: Vec<String> = conditions
        .map(|(key, what)| format!("{key} {what}"))
        .collect();
    format!("{who}: {}", conditions.join(", "))
}

/// The expectations as test cases.
pub(super) fn junit(file: &str, case: &Case<'_>, outcome: &Outcome, golden: &Answer) -> String {
    let expects = &case.written.expects;
    let mut cases = Vec::new();
    for (index, expect) in expects.iter().enumerate() {
        let against = outcome.unmet.iter().filter(|unmet| unmet.index == index);
        let failures: Vec<String> = against.map(in_words).collect();
        cases.push((title(expect), failures));
    }
    match golden {
        Answer::NotAsked => {}
        Answer::Same(_) | Answer::Written(_) => cases.push((String::from("golden log"), vec![])),
        Answer::Different(text) => cases.push((String::from("golden log"), vec![text.clone()])),
    }
    let failed = cases
        .iter()
        .filter(|(_, against)| !against.is_empty())
        .count();
    let suite = escaped(file);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"chatcron simulate\" tests=\"{tests}\" failures=\"{failed}\">\n\
         \x20 <testsuite name=\"{suite}\" tests=\"{tests}\" failures=\"{failed}\" errors=\"0\" skipped=\"0\">\n",
        tests = cases.len(),
    );
    for (name, against) in &cases {
        let name = escaped(name);
        if against.is_empty() {
            text.push_str(&format!(
                "    <testcase classname=\"{suite}\" name=\"{name}\"/>\n"
            ));
            continue;
        }
        text.push_str(&format!(
            "    <testcase classname=\"{suite}\" name=\"{name}\">\n"
        ));
        for why in against {
            let first = why.lines().next().unwrap_or_default();
            text.push_str(&format!(
                "      <failure message=\"{}\">{}</failure>\n",
                escaped(first),
                escaped(why)
            ));
        }
        text.push_str("    </testcase>\n");
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}
