//! Choices that follow from a seed (splitmix64).

use serde_json::Value;

pub(crate) struct Draw {
    state: u64,
    /// What has yet to be dealt before everything is dealt again.
    deck: Vec<Value>,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: seed,
            deck: Vec::new(),
        }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.between(1, 100) <= chance
    }

    /// One of these, in an order of chance; each once before any comes again.
    pub(crate) fn deal(&mut self, all: fn() -> Vec<Value>) -> Value {
        if self.deck.is_empty() {
            self.deck = all();
        }
        let last = u64::try_from(self.deck.len()).unwrap() - 1;
        let chosen = usize::try_from(self.between(0, last)).unwrap();
        self.deck.swap_remove(chosen)
    }
}
