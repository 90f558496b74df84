//! Share groups (KIP-932) look like groups without commits, and have no lag. A broker that knows them can tell.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use kafka_protocol::{
    messages::{GroupId, ShareGroupDescribeRequest, share_group_describe_response::DescribedGroup},
    protocol::StrBytes,
};
use tokio::time::{Instant, timeout_at};

use super::{
    Client, by_connection, code,
    connection::Connection,
    coordinators::group_fault,
    fault::{Fault, is_passing, malformed, timed_out},
    retry::Retry,
};
use crate::sampler::{SampleError, Subject};

/// How long an answer is believed: a group that comes to life as a share group is noticed within it.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Groups of one request: the reply describes every member of each.
const GROUPS_PER_REQUEST: usize = 100;
/// The state of a group that is not there.
const DEAD: &str = "Dead";

/// Which groups were found to be share groups, and when.
#[derive(Default)]
pub(super) struct ShareGroups(HashMap<Arc<str>, (Instant, bool)>);

impl Client {
    /// Why groups without a commit cannot be measured; a group that is no share group has no entry.
    pub(crate) async fn share_groups(&mut self, groups: HashSet<Arc<str>>, until: Instant) -> HashMap<Arc<str>, Fault> {
        let known = &mut self.share_groups.0;
        known.retain(|_, (read, _)| Instant::now() < *read + MAX_AGE);
        let mut faults = HashMap::new();
        let mut left = Vec::new();
        for group in groups {
            match known.get(&group) {
                Some((_, true)) => {
                    faults.insert(Arc::clone(&group), share_group(&group));
                }
                Some((_, false)) => {}
                None => left.push(group),
            }
        }
        let mut retry = Retry::until(until);
        while !left.is_empty() {
            for (group, answer) in self.describe(std::mem::take(&mut left), until).await {
                match answer {
                    Ok(is_share) => {
                        self.share_groups.0.insert(Arc::clone(&group), (Instant::now(), is_share));
                        faults.remove(&group);
                        if is_share {
                            faults.insert(Arc::clone(&group), share_group(&group));
                        }
                    }
                    Err(fault) => {
                        if is_passing(&fault) {
                            self.coordinators.forget(&group);
                            left.push(Arc::clone(&group));
                        }
                        faults.insert(group, fault);
                    }
                }
            }
            if left.is_empty() || !retry.pause().await {
                break;
            }
        }
        faults
    }

    async fn describe(&mut self, groups: Vec<Arc<str>>, until: Instant) -> Answers {
        let mut answers = Answers::new();
        let mut reached = Vec::new();
        for (group, connection) in self.coordinate(groups, until).await {
            match connection {
                // A broker that does not know share groups has none.
                Ok(to) if !to.versions.have::<ShareGroupDescribeRequest>() => answers.push((group, Ok(false))),
                Ok(to) => reached.push((to, group)),
                Err(fault) => answers.push((group, Err(fault))),
            }
        }
        let batches = by_connection(reached);
        let requests = batches
            .iter()
            .flat_map(|(to, groups)| groups.chunks(GROUPS_PER_REQUEST).map(move |groups| ask(to, groups, until)));
        answers.extend(join_all(requests).await.into_iter().flatten());
        answers
    }
}

type Answers = Vec<(Arc<str>, Result<bool, Fault>)>;

async fn ask(to: &Connection, groups: &[Arc<str>], until: Instant) -> Answers {
    let ids = groups.iter().map(|group| GroupId(StrBytes::from_string(group.to_string())));
    let request = ShareGroupDescribeRequest::default().with_group_ids(ids.collect());
    let reply = timeout_at(until, to.call(&request)).await.unwrap_or_else(|_| Err(timed_out()));
    let reply = match reply {
        Ok(reply) => reply,
        Err(fault) => return groups.iter().map(|group| (Arc::clone(group), Err(Arc::clone(&fault)))).collect(),
    };
    let described: HashMap<&[u8], _> = reply.groups.iter().map(|found| (found.group_id.as_bytes(), found)).collect();
    let answer = |group: &Arc<str>| match described.get(group.as_bytes()) {
        Some(found) => is_share(group, found),
        None => Err(malformed("a group is missing from it")),
    };
    groups.iter().map(|group| (Arc::clone(group), answer(group))).collect()
}

fn is_share(group: &Arc<str>, found: &DescribedGroup) -> Result<bool, Fault> {
    match found.error_code {
        code::NONE => Ok(&*found.group_state != DEAD),
        // A share group whose topics the credential may not read is still one.
        code::TOPIC_AUTHORIZATION_FAILED => Ok(true),
        // No such share group, or a cluster on which they are turned off.
        code::GROUP_ID_NOT_FOUND | code::UNSUPPORTED_VERSION => Ok(false),
        other => Err(group_fault(group, other)),
    }
}

fn share_group(group: &Arc<str>) -> Fault {
    Arc::new(SampleError::ShareGroup(Subject::ConsumerGroup(Arc::clone(group))))
}
