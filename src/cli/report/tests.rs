//! What depends on the moment of the check, which the binary takes from the clock.

use std::path::Path;

use crate::{cli::Colour, config};

const SOURCE: &str = r#"timezone = "Europe/Berlin"

[agents.main]
kind = "echo"

[jobs.night]
daily   = ["02:30", "08:00"]
deliver = "history"
alert   = false
prompt  = "Check the night's logs."
"#;

fn report(colour: Colour) -> String {
    let read_file = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let now = "2026-12-01T00:00:00Z".parse().unwrap();
    let loaded = config::parse(SOURCE, &read_file, now);
    super::text("jobs.toml", &loaded, colour)
}

#[test]
fn a_time_inside_the_next_clock_change_is_told_with_its_date_and_effect() {
    insta::assert_snapshot!(report(Colour::Plain), @r#"
    warning: 02:30 does not exist on 2027-03-28 in Europe/Berlin; runs at 03:00
     --> jobs.toml:7:12
      |
    6 | [jobs.night]
    7 | daily   = ["02:30", "08:00"]
      |            ^^^^^^^ inside a clock change
      |
      = help: fine if that is meant; the clock goes forward from 02:00 to 03:00 that day

    jobs.toml: 1 warning; 1 job is good
    "#);
}

#[test]
fn colour_carries_no_meaning_of_its_own() {
    let styled = report(Colour::Styled);
    assert!(styled.contains('\u{1b}'));
    let mut plain = String::new();
    let mut in_escape = false;
    for c in styled.chars() {
        match c {
            '\u{1b}' => in_escape = true,
            'm' if in_escape => in_escape = false,
            c if !in_escape => plain.push(c),
            _ => {}
        }
    }
    assert_eq!(plain, report(Colour::Plain));
}

#[test]
fn every_broken_file_can_be_shown() {
    let read_file = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let now = "2026-12-01T00:00:00Z".parse().unwrap();
    let example = include_str!("../../../jobs.example.toml");
    let foreign = example
        .replace("me", "mü")
        .replace("daily", "täglich")
        .replace("08:00", "acht\tUhr\u{1f550}");
    for source in [example, &foreign] {
        let places = (0..source.len()).filter(|at| source.is_char_boundary(*at));
        for at in places.step_by(97) {
            let (start, end) = source.split_at(at);
            for broken in [
                start.to_owned(),
                format!("{start}\"{end}"),
                format!("{start}\r[é{end}"),
                format!("{start}]{{\u{0}{end}"),
            ] {
                let loaded = config::parse(&broken, &read_file, now);
                let text = super::text("jobs.toml", &loaded, Colour::Plain);
                assert!(text.contains("jobs.toml: "));
                assert!(super::json("jobs.toml", &loaded).starts_with('['));
            }
        }
    }
}
