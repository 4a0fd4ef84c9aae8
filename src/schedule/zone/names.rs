//! Names of zones, and which of them are none.

use jiff::tz;

/// The name in the zone database that is most like this one.
pub fn nearest_name(found: &str) -> Option<String> {
    let wanted = found.to_ascii_lowercase().replace(' ', "_");
    let likeness = |name: &str| {
        let name = name.to_ascii_lowercase();
        let city = name.rsplit('/').next().unwrap_or(&name);
        let own_city = wanted.rsplit('/').next().unwrap_or(&wanted);
        // The right city under a wrong region, or under none, is a likely slip.
        strsim::jaro_winkler(&wanted, &name).max(0.98 * strsim::jaro_winkler(own_city, city))
    };
    tz::db()
        .available()
        .filter(|name| !is_no_place(name.as_str()))
        .map(|name| (likeness(name.as_str()), name.as_str().to_owned()))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|(a, left), (b, right)| a.total_cmp(b).then_with(|| right.cmp(left)))
        .map(|(_, name)| name)
}

/// Whether a file of the zone database is the host's zone, or another file under a second name:
/// `right/` counts leap seconds and would be seconds off.
pub(crate) fn is_no_place(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["localtime", "posixrules", "factory"].contains(&name.as_str())
        || ["right/", "posix/"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}
