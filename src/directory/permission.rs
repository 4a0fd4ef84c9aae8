//! What an agent may do besides answering.

use std::collections::BTreeSet;

/// One thing that an agent may do: a tool that it is offered, or how far its tools reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// See jobs.
    ListJobs,
    /// Let nothing of a job start until it is resumed.
    PauseJob,
    /// Let a paused job run again.
    ResumeJob,
    /// Create a job.
    CreateJob,
    /// Delete a job that was created at run time.
    DeleteJob,
    /// Have the job that runs looked after once more, sooner than its schedule says.
    NextCheck,
    /// Send a message to a chat.
    SendMessage,
    /// Reach every job, not only those that post to the chat of the turn.
    AnyJob,
    /// Send to every chat, not only to those that the agent answers.
    AnyChat,
    /// Create jobs in runs of background jobs too, where no person asked for them.
    CreateInBackground,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 10] = [
        Self::ListJobs,
        Self::PauseJob,
        Self::ResumeJob,
        Self::CreateJob,
        Self::DeleteJob,
        Self::NextCheck,
        Self::SendMessage,
        Self::AnyJob,
        Self::AnyChat,
        Self::CreateInBackground,
    ];

    /// The word in the jobs file; of a tool, its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ListJobs => "list_jobs",
            Self::PauseJob => "pause_job",
            Self::ResumeJob => "resume_job",
            Self::CreateJob => "create_job",
            Self::DeleteJob => "delete_job",
            Self::NextCheck => "next_check",
            Self::SendMessage => "send_message",
            Self::AnyJob => "any_job",
            Self::AnyChat => "any_chat",
            Self::CreateInBackground => "create_in_background",
        }
    }

    /// The permission of this word.
    pub fn of_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|permission| permission.as_str() == word)
    }

    /// What a model may do where nothing is said: enough to follow "stop this" and to take it back.
    pub fn standard() -> BTreeSet<Self> {
        BTreeSet::from([Self::ListJobs, Self::PauseJob, Self::ResumeJob])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_permission_has_its_own_word() {
        for permission in Permission::ALL {
            assert_eq!(Permission::of_word(permission.as_str()), Some(permission));
        }
        assert_eq!(Permission::of_word("everything"), None);
    }
}
