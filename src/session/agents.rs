//! The agents a worker has, by name.

use std::{collections::BTreeMap, sync::Arc};

use crate::{agent::Agent, ids::AgentName};

/// The agents that answer turns.
pub type Agents = BTreeMap<AgentName, Arc<dyn Agent>>;
