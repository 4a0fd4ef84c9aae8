//! What the report and the expectations tell of clocks.

use super::{Folder, JOBS, code, err, out};

#[test]
fn a_slot_of_both_passes_of_a_repeated_hour_is_named_twice() {
    let jobs = JOBS.replace("every = \"2h\"", "cron = \"30 * * * *\"");
    let folder = Folder::with(&jobs);
    let both = "\"2027-10-31T02:30\", \"2027-10-31T02:30\"";
    let slots = |slots: &str| {
        let text = format!(
            "from = \"2027-10-31T02:00\"\nto = \"2027-10-31T03:00\"\n\
             [[expect]]\njob = \"watch\"\nslots = [{slots}]\n"
        );
        folder.put("slots.toml", &text);
        let mut command = folder.command();
        command.args(["--scenario", "slots.toml"]).output().unwrap()
    };
    let output = slots(both);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let output = slots("\"2027-10-31T02:30\"");
    assert_eq!(code(&output), 1, "{}", out(&output));
    let says = "found    2027-10-31T02:30:00 (2 times)";
    assert!(err(&output).contains(says), "{}", err(&output));
    assert!(err(&output).contains("02:30:00/2["), "{}", err(&output));
}

#[test]
fn a_clock_that_is_set_back_is_told_with_how_long_jobs_stand_still() {
    let folder = Folder::with(JOBS);
    let output = folder.simulate(&["--clock-step", "2027-03-24T12:00=-3h"]);
    let says = "clock set back 3 h at Wed 2027-03-24 12:00: nothing comes due before it shows \
                Wed 2027-03-24 12:00 again, until Wed 2027-03-24 15:00\n";
    assert!(out(&output).contains(says), "{}", out(&output));
    // The clock shows 10:00 a second time; that slot has run.
    let log = folder.simulate(&["--clock-step", "2027-03-24T12:00=-3h", "--format", "jsonl"]);
    let starts = out(&log).lines().filter(|line| {
        let of_watch = line.contains("\"start\"") && line.contains("\"watch\"");
        let at = line.get(7..27).unwrap_or_default();
        of_watch && ("2027-03-24T08:00:00Z".."2027-03-24T13:00:00Z").contains(&at)
    });
    let starts: Vec<&str> = starts.collect();
    assert_eq!(starts.len(), 2, "{starts:?}");
}

#[test]
fn the_next_slot_of_a_job_in_another_zone_names_the_zone() {
    let jobs = JOBS.replace(
        "daily = \"08:00\"",
        "daily = \"08:00\"\ntimezone = \"Asia/Tokyo\"",
    );
    let output = Folder::with(&jobs).simulate(&[]);
    let says = "Mon 2027-03-29 08:00 (Asia/Tokyo)";
    assert!(out(&output).contains(says), "{}", out(&output));
    assert!(!out(&output).contains("02:30 (Europe"), "{}", out(&output));
}
