//! What keeps the store from working: told once when it begins, and once when it is over.

use tokio::sync::watch;

use crate::store::StoreError;

/// The trouble that a worker has with its store.
#[derive(Debug)]
pub(super) struct Trouble {
    told: watch::Sender<Option<String>>,
}

impl Default for Trouble {
    fn default() -> Self {
        Self {
            told: watch::Sender::new(None),
        }
    }
}

impl Trouble {
    /// A view of it for others: `None` while everything works.
    pub(super) fn watch(&self) -> watch::Receiver<Option<String>> {
        self.told.subscribe()
    }

    /// The store has failed; what it did not take is tried again.
    pub(super) fn has(&self, error: &StoreError) {
        let words = match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        let is_news = self.told.send_if_modified(|told| {
            let is_news = told.as_ref() != Some(&words);
            *told = Some(words.clone());
            is_news
        });
        if is_news {
            tracing::error!(
                error = words,
                "the store failed; nothing begins until it works again"
            );
        }
    }

    /// Everything that was due has been done.
    pub(super) fn is_over(&self) {
        let was_there = self.told.send_if_modified(|told| told.take().is_some());
        if was_there {
            tracing::info!("the store works again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_seen_while_it_lasts() {
        let trouble = Trouble::default();
        let seen = trouble.watch();
        trouble.has(&StoreError::Full {
            database: "x.db".to_owned(),
        });
        let words = seen.borrow().clone();
        assert_eq!(
            words.as_deref(),
            Some("no room is left on the disk of x.db")
        );
        trouble.is_over();
        assert_eq!(*seen.borrow(), None);
    }
}
