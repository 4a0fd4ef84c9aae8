//! Durations as a person writes them: `30s`, `5m`, `2h`, `1d`, `1h30m`.

use jiff::SignedDuration;

/// Largest first: the order in which units may follow each other.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// A hundred years, beyond which arithmetic with dates would end.
const LONGEST_S: u64 = 100 * 366 * 86_400;

/// What the texts that are read look like, for the JSON Schema.
pub(super) const PATTERN: &str = r"^(?=\d)(?!.* $)(\d+d ?)?(\d+h ?)?(\d+m ?)?(\d+s)?$";

/// Reads a duration.
pub(crate) fn parse(text: &str) -> Result<SignedDuration, String> {
    let mut total: u64 = 0;
    let mut units = UNITS.iter();
    let mut rest = text;
    if rest.is_empty() {
        return Err(String::from("it is empty"));
    }
    while !rest.is_empty() {
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        if number.is_empty() {
            return Err(format!("`{rest}` does not begin with a whole number"));
        }
        let number = number.parse::<u64>().unwrap_or(u64::MAX);
        if tail.starts_with(['.', ',']) {
            return Err(String::from(
                "no fractions: one and a half hours are `1h30m`",
            ));
        }
        let letters = tail.chars().take_while(|c| c.is_alphabetic()).count();
        let word: String = tail.chars().take(letters).collect();
        let seconds = unit_of(&word, number, text, &mut units)?;
        total = number
            .checked_mul(seconds)
            .and_then(|part| total.checked_add(part))
            .filter(|total| *total <= LONGEST_S)
            .ok_or_else(|| String::from("it is longer than a hundred years"))?;
        rest = &tail[word.len()..];
        if let Some(next) = rest.strip_prefix(' ') {
            rest = next;
            if rest.is_empty() {
                return Err(String::from("it ends with a space"));
            }
        }
    }
    Ok(SignedDuration::from_secs(i64::try_from(total).unwrap_or(0)))
}

fn unit_of(
    word: &str,
    number: u64,
    text: &str,
    units: &mut std::slice::Iter<'_, (char, u64)>,
) -> Result<u64, String> {
    if word.is_empty() {
        return Err(format!(
            "`{number}` has no unit: is it `{number}s`, `{number}m` or `{number}h`?"
        ));
    }
    let letter = match word {
        "s" | "m" | "h" | "d" => word,
        "sec" | "secs" | "second" | "seconds" | "S" => "s",
        "min" | "mins" | "minute" | "minutes" | "M" => "m",
        "hr" | "hrs" | "hour" | "hours" | "H" => "h",
        "day" | "days" | "D" => "d",
        "w" | "week" | "weeks" => return Err(format!("write `{}d`", number.saturating_mul(7))),
        other => return Err(format!("`{other}` is not a unit")),
    };
    if letter != word {
        return Err(format!("write `{number}{letter}`"));
    }
    units
        .find(|(unit, _)| letter.starts_with(*unit))
        .map(|(_, seconds)| *seconds)
        .ok_or_else(|| format!("in `{text}` the units go from large to small, each once"))
}

/// A duration in the words in which one is written.
pub(super) fn spelled(duration: SignedDuration) -> String {
    let mut rest = duration.as_secs().unsigned_abs();
    let mut text = String::new();
    for (unit, seconds) in UNITS {
        let count = rest / seconds;
        rest %= seconds;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_spelled_back() {
        for (text, seconds) in [
            ("30s", 30),
            ("5m", 300),
            ("2h", 7_200),
            ("1d", 86_400),
            ("1h30m", 5_400),
            ("1d2h3m4s", 93_784),
            ("0s", 0),
        ] {
            let read = parse(text).unwrap();
            assert_eq!(read.as_secs(), seconds, "{text}");
            assert_eq!(spelled(read), text);
        }
        assert_eq!(parse("1h 30m").unwrap().as_secs(), 5_400);
        assert_eq!(parse("90m").unwrap().as_secs(), 5_400);
    }

    #[test]
    fn what_is_not_a_duration_says_why() {
        for (text, why) in [
            ("", "empty"),
            ("10", "has no unit"),
            ("5min", "write `5m`"),
            ("2 hours", "has no unit"),
            ("1w", "write `7d`"),
            ("30m1h", "large to small"),
            ("1h1h", "large to small"),
            ("1.5h", "no fractions"),
            ("-5m", "does not begin"),
            ("500ms", "not a unit"),
            ("9999999999999999999d", "longer than a hundred years"),
            ("99999999999999999999999d", "longer than a hundred years"),
            ("1h ", "ends with a space"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
