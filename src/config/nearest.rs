//! The nearest right word for a misspelt one.

/// The candidate that a person most likely meant, if one is near.
pub(crate) fn nearest<'a>(
    found: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let found = folded(found);
    let allowed = (found.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&found, &folded(candidate));
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and the choice between `-` and `_` are not what is misspelt.
fn folded(text: &str) -> String {
    text.to_lowercase().replace('-', "_")
}

/// "`a`, `b` or `c`".
pub(super) fn listed<'a>(words: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        None => String::from("none"),
        Some((only, [])) => only.clone(),
        Some((end, start)) => format!("{} {last} {end}", start.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_nearest_and_a_strange_one_finds_none() {
        let keys = ["timeout", "timezone", "retry", "catch_up"];
        assert_eq!(nearest("tiemout", keys), Some("timeout"));
        assert_eq!(nearest("catch-up", keys), Some("catch_up"));
        assert_eq!(nearest("Retry", keys), Some("retry"));
        assert_eq!(nearest("colour", keys), None);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(listed(["a"], "or"), "`a`");
        assert_eq!(listed(["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }
}
