//! Jobs files that are right, and one for each kind of mistake.
//!
//! A file under `bad` names the codes that it must bring, in alphabetical order, in its first line:
//! `# expect: unknown-chat unknown-key`.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{collections::BTreeSet, fs, path::Path};

use chatcron::{
    config::{self, Code, Level, Loaded},
    directory::{AgentKind, ChannelConfig, ChatDialect, ReplayMode},
    ids::ChatKind,
    job::{Alert, CatchUp, Deliver, Job, Mode, OnInterrupt, OnUnknown, When},
};
use jiff::{SignedDuration, Timestamp, civil};

const NOW: &str = "2026-12-01T00:00:00Z";

fn load(path: &Path) -> Loaded {
    let source = fs::read_to_string(path).unwrap();
    let folder = path.parent().unwrap();
    let read_file = |relative: &Path| fs::read_to_string(folder.join(relative));
    config::parse(&source, &read_file, NOW.parse().unwrap())
}

fn parse(source: &str) -> Loaded {
    let read_file = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    config::parse(source, &read_file, NOW.parse().unwrap())
}

fn fixtures(folder: &str) -> Vec<std::path::PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(Path::new("tests/fixtures/jobs").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    paths.sort();
    paths
}

fn good(name: &str) -> config::JobsFile {
    let loaded = load(&Path::new("tests/fixtures/jobs/good").join(name));
    loaded.file.unwrap()
}

fn job<'a>(file: &'a config::JobsFile, id: &str) -> &'a Job {
    file.jobs
        .iter()
        .find(|job| job.id.as_str() == id)
        .unwrap_or_else(|| panic!("{id}"))
}

#[test]
fn every_kind_of_mistake_brings_its_codes_and_no_others() {
    let mut offences = Vec::new();
    for path in fixtures("bad") {
        let source = fs::read_to_string(&path).unwrap();
        let first = source.lines().next().unwrap();
        let expected = first.strip_prefix("# expect: ").unwrap().trim();
        let loaded = load(&path);
        let mut codes: Vec<_> = loaded.problems.iter().map(|p| p.code.as_str()).collect();
        codes.sort_unstable();
        let found = codes.join(" ");
        if found != expected {
            offences.push(format!(
                "{}\n  expected {expected}\n  found    {found}",
                path.display()
            ));
            offences.extend(loaded.problems.iter().map(|problem| {
                format!(
                    "    {}: {} ({})",
                    problem.code.as_str(),
                    problem.message,
                    problem.label
                )
            }));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn every_code_is_brought_by_some_fixture() {
    let brought: BTreeSet<Code> = fixtures("bad")
        .iter()
        .flat_map(|path| load(path).problems)
        .map(|problem| problem.code)
        .collect();
    let missing: Vec<_> = Code::ALL
        .iter()
        .filter(|code| !brought.contains(code))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(words.len(), Code::ALL.len(), "a word means one thing");
}

#[test]
fn every_error_says_what_is_there_and_what_to_do() {
    for path in fixtures("bad") {
        let loaded = load(&path);
        let mut last = 0;
        for problem in &loaded.problems {
            let what = format!("{}: {problem:?}", path.display());
            assert!(
                !problem.message.is_empty() && !problem.label.is_empty(),
                "{what}"
            );
            assert!(!problem.message.ends_with('.'), "{what}");
            assert!(problem.span.end <= loaded.source.len(), "{what}");
            assert!(problem.span.start >= last, "from top to bottom: {what}");
            last = problem.span.start;
        }
    }
}

#[test]
fn right_files_bring_nothing_but_jobs() {
    let example = std::path::PathBuf::from("jobs.example.toml");
    for path in fixtures("good").into_iter().chain([example]) {
        let loaded = load(&path);
        assert!(
            loaded.problems.is_empty(),
            "{}: {:?}",
            path.display(),
            loaded.problems
        );
        assert!(
            loaded.file.unwrap().bad_jobs.is_empty(),
            "{}",
            path.display()
        );
    }
}

#[test]
fn schedules_are_read_as_written() {
    let file = good("schedules.toml");
    assert_eq!(file.timezone.as_deref(), Some("America/New_York"));
    assert_eq!(file.max_concurrent, 2);
    let When::Daily { times, days } = &job(&file, "daily-list").schedule.when else {
        panic!("not daily");
    };
    assert_eq!(*times, [civil::time(8, 0, 0, 0), civil::time(20, 0, 30, 0)]);
    assert_eq!(days.bits(), 0b011_1010);
    assert_eq!(job(&file, "cron-five").schedule.zone, "Europe/Berlin");
    let anchor = |id: &str| {
        let When::Every { anchor, .. } = &job(&file, id).schedule.when else {
            panic!("{id} is not every so often");
        };
        anchor.map(|anchor| anchor.to_string())
    };
    assert_eq!(anchor("every-plain"), None);
    assert_eq!(
        anchor("every-anchored").as_deref(),
        Some("2026-01-01T00:30:00Z")
    );
    assert_eq!(
        anchor("every-anchored-locally").as_deref(),
        Some("2026-01-01T05:30:00Z")
    );
    assert_eq!(
        job(&file, "at-text").schedule.when,
        job(&file, "at-toml").schedule.when
    );
    let bounds = job(&file, "bounds");
    assert!(!bounds.enabled);
    assert_eq!(
        bounds.schedule.from,
        Some(civil::date(2026, 6, 1).at(0, 0, 0, 0))
    );
    assert_eq!(
        bounds.schedule.until,
        Some(civil::date(2099, 6, 1).at(12, 0, 0, 0))
    );
    assert_eq!(bounds.schedule.exclude.len(), 2);
    assert_eq!(bounds.policies.max_runs, Some(10));
    let order: Vec<_> = file
        .jobs
        .iter()
        .map(|job| job.id.as_str())
        .take(3)
        .collect();
    assert_eq!(order, ["daily-one", "daily-list", "daily-toml-time"]);
}

#[test]
fn modes_follow_from_chat_and_deliver() {
    let file = good("destinations.toml");
    assert_eq!(job(&file, "in-chat").display_name(), "Check in");
    assert!(matches!(
        &job(&file, "in-chat").mode,
        Mode::InChat { agent: None, .. }
    ));
    let Mode::Background {
        deliver,
        memory,
        context,
        agent,
    } = &job(&file, "to-chat").mode
    else {
        panic!("not background");
    };
    assert!(matches!(deliver, Deliver::Chat(name) if name.as_str() == "group"));
    assert!(*memory);
    assert_eq!(context.as_ref().unwrap().last, 5);
    assert_eq!(agent.as_str(), "main");
    assert_eq!(job(&file, "to-chat").prompt, "Write the report.\n");
    assert_eq!(file.prompt_files, [Path::new("prompts/report.md")]);
    let deliver_of = |id: &str| match &job(&file, id).mode {
        Mode::Background { deliver, .. } => deliver.clone(),
        Mode::InChat { .. } => panic!("{id} is in-chat"),
    };
    assert_eq!(deliver_of("to-history"), Deliver::History);
    let Deliver::Webhook(target) = deliver_of("to-webhook") else {
        panic!("not a webhook");
    };
    assert!(target.allow_private);
    assert_eq!(target.secret_env.as_deref(), Some("HOOK_SECRET"));
}

#[test]
fn chats_get_their_kind_from_the_address_and_their_keys_from_one_function() {
    let file = good("destinations.toml");
    let chat = |name: &str| &file.directory.chats[name];
    for (name, kind, key) in [
        ("me", ChatKind::Direct, "telegram:direct:5550001"),
        (
            "group",
            ChatKind::Group,
            "telegram:work:group:-1001234:thread:7",
        ),
        ("news", ChatKind::Channel, "files:channel:@news"),
        ("broadcast", ChatKind::Channel, "terminal:channel:broadcast"),
        ("hook", ChatKind::Direct, "hook:direct:hook"),
    ] {
        assert_eq!(chat(name).kind, kind, "{name}");
        assert_eq!(chat(name).session_key().as_str(), key);
    }
    let ChannelConfig::Telegram { api_root, .. } = &file.directory.channels["files"] else {
        panic!("not telegram");
    };
    assert_eq!(api_root, "https://api.telegram.org");
}

#[test]
fn agents_get_the_roots_of_their_providers() {
    let file = good("agents.toml");
    let root = |name: &str| match &file.directory.agents[name].kind {
        AgentKind::OpenAi(endpoint, _)
        | AgentKind::OpenAiResponses(endpoint)
        | AgentKind::Anthropic(endpoint)
        | AgentKind::Gemini(endpoint) => endpoint.base_url.clone(),
        AgentKind::Echo | AgentKind::Command(_) | AgentKind::Http(_) => {
            panic!("{name} has no endpoint")
        }
    };
    assert_eq!(root("openai"), "https://api.openai.com/v1");
    assert_eq!(root("local"), "http://localhost:11434/v1");
    assert_eq!(root("anthropic"), "https://example.org/v1");
    assert_eq!(root("responses"), "https://api.openai.com/v1");
    let google = "https://generativelanguage.googleapis.com/v1beta";
    assert_eq!(root("gemini"), google);
    let replay = |name: &str| file.directory.agents[name].replay;
    assert_eq!(replay("responses"), ReplayMode::Framed);
    assert_eq!(replay("gemini"), ReplayMode::Clean);
    assert_eq!(replay("openai"), ReplayMode::Clean);
    let dialect = |name: &str| {
        let AgentKind::OpenAi(_, dialect) = &file.directory.agents[name].kind else {
            panic!("{name} is of another kind");
        };
        *dialect
    };
    assert_eq!(dialect("openai"), ChatDialect::OpenAi);
    assert_eq!(dialect("mistral"), ChatDialect::Mistral);
    assert_eq!(dialect("llama"), ChatDialect::Strict);
    let Mode::Background { agent, .. } = &job(&file, "tick").mode else {
        panic!("not background");
    };
    assert_eq!(agent.as_str(), "command", "the default");
    assert_eq!(job(&file, "tick").schedule.zone, "UTC");
}

#[test]
fn a_job_has_its_own_policies_above_the_defaults() {
    let file = good("policies.toml");
    let minutes = SignedDuration::from_mins;
    let seconds = SignedDuration::from_secs;
    let default = &job(&file, "as-the-file-says").policies;
    assert_eq!(default.timeout, minutes(20));
    assert_eq!(default.retry.attempts, 5);
    assert_eq!(default.max_runs, Some(1000));
    assert_eq!(job(&file, "as-the-file-says").schedule.jitter, seconds(5));
    let own = &job(&file, "in-its-own-way").policies;
    assert_eq!(own.catch_up, CatchUp::None);
    assert_eq!(own.timeout, seconds(30));
    assert_eq!(own.on_interrupt, OnInterrupt::Fail);
    assert_eq!(own.on_unknown, OnUnknown::Resend);
    assert_eq!(own.max_runs, Some(1));
    assert!(default.retry_after_effects && !own.retry_after_effects);
    assert_eq!(
        (own.retry.attempts, own.retry.backoff.as_slice()),
        (5, &[minutes(1)][..])
    );
    let once = |after, cooldown| Alert::Once { after, cooldown };
    assert_eq!(default.alert, once(3, SignedDuration::ZERO));
    assert_eq!(own.alert, Alert::Never);
    let half = &job(&file, "with-half-of-an-alert").policies;
    assert_eq!(half.alert, once(1, SignedDuration::ZERO));
    assert_eq!(half.catch_up_window, Some(SignedDuration::ZERO));
    assert_eq!(half.catch_up_spread, minutes(2));
    let told = [default, half].map(|policies| policies.alert_to.as_ref().unwrap().as_str());
    assert_eq!(told, ["me", "ops"]);
    assert_eq!(
        file.retention.unwrap().runs,
        SignedDuration::from_hours(30 * 24)
    );
}

#[test]
fn bad_jobs_are_named_with_what_is_wrong_and_the_good_ones_stay() {
    let loaded = load(Path::new("tests/fixtures/jobs/bad/left-out.toml"));
    let file = loaded.file.unwrap();
    let good: Vec<_> = file.jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(good, ["good"]);
    let bad: Vec<_> = file
        .bad_jobs
        .iter()
        .map(|job| {
            (
                job.name.as_str(),
                job.because.as_deref().unwrap_or("itself"),
            )
        })
        .collect();
    assert_eq!(
        bad,
        [
            ("by-channel", "channel `telegram`"),
            ("by-channel-too", "channel `telegram`"),
            ("by-default", "`defaults.timeout`"),
        ]
    );
}

#[test]
fn a_file_that_is_not_toml_says_so_and_changes_nothing() {
    for name in ["not-toml", "secret-not-toml", "duplicate-key"] {
        let loaded = load(Path::new(&format!("tests/fixtures/jobs/bad/{name}.toml")));
        assert!(loaded.file.is_none(), "{name}");
        assert!(loaded.has_errors(), "{name}");
    }
}

#[test]
fn a_wrong_word_on_retention_prunes_nothing() {
    let loaded = load(Path::new("tests/fixtures/jobs/bad/bad-duration.toml"));
    assert_eq!(loaded.file.unwrap().retention, None);
}

#[test]
fn no_secret_of_a_file_is_ever_shown() {
    for name in [
        "secret-in-file",
        "secret-in-prompt",
        "secret-not-toml",
        "bad-env-name",
    ] {
        let loaded = load(Path::new(&format!("tests/fixtures/jobs/bad/{name}.toml")));
        let shown = format!("{:?} {}", loaded.problems, loaded.source);
        for secret in ["AAEhBP", "AAFxyz", "hunter2", "abcdef0123", "api03"] {
            assert!(!shown.contains(secret), "{name} shows {secret}: {shown}");
        }
    }
}

#[test]
fn a_secret_in_a_message_of_another_kind_is_not_shown_either() {
    let token = "123456789:AAEhBP0av28fTQ9zk2mVqXyW4dLr7sNcJuI";
    for line in [
        format!("[jobs.a]\ndaily = \"{token}\""),
        format!("[jobs.a]\ndeliver = \"{token}\""),
        format!("[jobs.a]\ncron = \"{token}\""),
        format!("[jobs.\"{token}\"]\ncron = \"\""),
        format!(
            "[jobs.a]\ndaily = \"a long text before the secret, so long that it is cut {token}\""
        ),
        format!("[agents.a]\nkind = \"{token}\""),
        format!("timezone = \"{token}\""),
        format!("[jobs.a]\nprompt_file = \"{token}\""),
        format!("\"{token}\" = 1"),
        token.to_owned(),
    ] {
        let loaded = parse(&line);
        assert!(!loaded.problems.is_empty(), "{line}");
        let shown = format!("{:?} {}", loaded.problems, loaded.source);
        assert!(!shown.contains("AAEhBP"), "{line}: {shown}");
        assert_eq!(loaded.source.len(), line.len());
    }
}

#[test]
fn spans_point_at_what_is_wrong() {
    let source = "[jobs.a]\ncron = '0 5/3 * * *'\ndeliver = \"hstory\"\nprompt = \"x\"\n[agents.m]\nkind = \"echo\"\n";
    let loaded = parse(source);
    let at: Vec<_> = loaded
        .problems
        .iter()
        .map(|problem| (problem.code.as_str(), &source[problem.span.clone()]))
        .collect();
    assert_eq!(
        at,
        [
            ("no-zone", "cron"),
            ("bad-cron", "5/3"),
            ("unknown-chat", "\"hstory\""),
        ]
    );
}

#[test]
fn every_prefix_of_the_example_is_answered_without_a_panic() {
    let source = fs::read_to_string("jobs.example.toml").unwrap();
    for end in (0..source.len())
        .step_by(5)
        .filter(|end| source.is_char_boundary(*end))
    {
        let loaded = parse(&source[..end]);
        for problem in &loaded.problems {
            assert!(problem.level == Level::Error || problem.level == Level::Warning);
            assert!(problem.span.start <= problem.span.end && problem.span.end <= end);
        }
    }
}

#[test]
fn line_ends_of_another_system_and_a_mark_at_the_start_change_nothing() {
    let source = fs::read_to_string("jobs.example.toml").unwrap();
    let other = format!("\u{feff}{}", source.replace('\n', "\r\n"));
    let (one, two) = (parse(&source), parse(&other));
    assert!(two.problems.is_empty(), "{:?}", two.problems);
    assert_eq!(one.file.unwrap().jobs, two.file.unwrap().jobs);
}

#[test]
fn jobs_as_a_list_are_told_how_to_be_tables() {
    let loaded = parse("[[jobs]]\nid = \"a\"\n");
    let [problem] = &loaded.problems[..] else {
        panic!("{:?}", loaded.problems);
    };
    assert_eq!(problem.code, Code::WrongType);
    assert!(problem.help.as_deref().unwrap().contains("`[jobs.NAME]`"));
}

#[test]
fn the_moment_of_reading_tells_past_from_future() {
    let source = "timezone = \"UTC\"\n[agents.m]\nkind = \"echo\"\n[jobs.a]\nat = \"2026-12-01T12:00\"\ndeliver = \"history\"\nalert = false\nprompt = \"x\"\n";
    let read_file = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let codes = |now: &str| -> Vec<Code> {
        let now: Timestamp = now.parse().unwrap();
        let loaded = config::parse(source, &read_file, now);
        assert_eq!(
            loaded.file.unwrap().jobs.len(),
            1,
            "past or not, it is a job"
        );
        loaded.problems.iter().map(|problem| problem.code).collect()
    };
    assert_eq!(codes("2026-12-01T11:59:59Z"), []);
    assert_eq!(codes("2026-12-01T12:00:00Z"), [Code::Past]);
}

#[test]
fn a_missing_address_is_told_beside_a_missing_token() {
    let loaded = parse(
        "timezone = \"UTC\"\n[channels.telegram]\nkind = \"telegram\"\n\
         [chats.me]\nchannel = \"telegram\"\n[agents.main]\nkind = \"echo\"\n",
    );
    let messages: Vec<_> = loaded.problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("token"), "{messages:?}");
    assert_eq!(messages[1], "chat `me` has no `to`");
}
