//! Long lists in pages.

use serde::Deserialize;
use utoipa::IntoParams;

use super::problem::{Kind, Problem};

/// How many items a page has where nothing is said.
pub(super) const PAGE: u32 = 50;
/// How many it has at most.
pub(super) const PAGE_MAX: u32 = 500;

/// Which page of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Paging {
    /// How many items, 50 where nothing is said.
    #[param(minimum = 1, maximum = 500)]
    pub(super) limit: Option<u32>,
    /// The `next` of the page before.
    pub(super) cursor: Option<String>,
}

/// How many items a page has.
pub(super) fn size(limit: Option<u32>) -> Result<u32, Problem> {
    match limit.unwrap_or(PAGE) {
        size @ 1..=PAGE_MAX => Ok(size),
        other => Err(Kind::Unprocessable
            .because(format!("`limit` is {other}"))
            .help(format!("`limit` is 1 to {PAGE_MAX}"))),
    }
}

/// The numbers of a cursor; it is opaque to whoever sends it back.
pub(super) fn numbers<const N: usize>(cursor: &str) -> Result<[i64; N], Problem> {
    let numbers: Option<Vec<i64>> = cursor.split('.').map(|n| n.parse().ok()).collect();
    numbers
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| unknown(cursor))
}

/// A cursor that this version has not given.
pub(super) fn unknown(cursor: &str) -> Problem {
    Kind::Unprocessable
        .because(format!("`cursor` is `{}`", super::extract::brief(cursor)))
        .help("`cursor` is the `next` of the page before, as it came")
}

/// A page of one more item than it shall have, cut to its size; and whether there are more.
pub(super) fn cut<T>(mut items: Vec<T>, size: u32) -> (Vec<T>, bool) {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let more = items.len() > size;
    items.truncate(size);
    (items, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_was_given() {
        assert_eq!(numbers::<2>("12.-3").unwrap(), [12, -3]);
        for wrong in ["", "1", "1.2.3", "1.x", "99999999999999999999.1"] {
            assert!(numbers::<2>(wrong).is_err(), "{wrong}");
        }
    }
}
