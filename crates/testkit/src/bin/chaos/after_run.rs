//! Checks after a run: how often calls ran, and what is left in Redis and in the replicas.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::deployment::{Deployment, MARKS};
use crate::history::{CallRecord, History, Outcome, Trace};

/// How often the handler of a call came to each of its marks.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    starts: u32,
    once: u32,
    ends: u32,
}

/// Checks how often each call ran.
pub(crate) fn check_runs(history: &History, folder: &Path) -> Result<(), String> {
    let marks = fs::read_to_string(folder.join(MARKS)).map_err(|error| format!("{MARKS}: {error}"))?;
    let mut runs: HashMap<&str, Runs> = HashMap::new();
    for line in marks.lines() {
        let Some((mark, nonce)) = line.split_once(' ') else { continue };
        let runs = runs.entry(nonce).or_default();
        match mark {
            "start" => runs.starts += 1,
            "once" => runs.once += 1,
            _ => runs.ends += 1,
        }
    }
    history.each_call(|nonce, call| {
        let is_cancelled = call.outcome == Outcome::Cancelled && !history.lost_cancellation(call);
        check_call(runs.get(nonce).copied().unwrap_or_default(), call, is_cancelled)
    });
    Ok(())
}

fn check_call(runs: Runs, call: &CallRecord, is_cancelled: bool) -> Result<(), String> {
    let is_wrong = match call.outcome {
        Outcome::Result => runs.ends != 1,
        _ if is_cancelled => runs.ends != 0,
        _ => runs.ends > 1,
    };
    if is_wrong || runs.once > 1 || runs.starts > 1 && !call.kind.runs_again() {
        return Err(format!("its handler ran as often as this: {runs:?}"));
    }
    Ok(())
}

/// Checks that every key in Redis has a time to live, and that ended sessions are gone.
pub(crate) async fn check_redis(history: &History, deployment: &Deployment) -> Result<(), String> {
    let script = "local none, records, cursor = {}, 0, '0' repeat local page = redis.call('SCAN', cursor, 'COUNT', 1000) \
                  cursor = page[1] for _, key in ipairs(page[2]) do \
                  if redis.call('PTTL', key) == -1 then none[#none + 1] = key end \
                  if string.find(key, ':record:') then records = records + 1 end end until cursor == '0' \
                  return table.concat(none, ' ') .. '|' .. records";
    let reply = deployment.redis.command(&["EVAL", script, "0"]).await?;
    let line = reply.lines().nth(1).unwrap_or_default();
    let Some((without, records)) = line.split_once('|') else {
        return Err(format!("Redis replied {reply:?}"));
    };
    println!("Redis has {records} records after the run");
    if !without.is_empty() {
        history.fail(usize::MAX, &format!("keys without a time to live: {without:.500}"), &Trace::default());
    }
    Ok(())
}

/// What a replica holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    memory_kib: u64,
    open_files: usize,
}

impl Held {
    /// Measures each replica.
    pub(crate) async fn measure(deployment: &Deployment) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for replica in &deployment.replicas {
            all.push(Self::of_process(replica.id().await?)?);
        }
        Ok(all)
    }

    fn of_process(id: u32) -> Result<Self, String> {
        let wrong = |error| format!("process {id}: {error}");
        let status = fs::read_to_string(format!("/proc/{id}/status")).map_err(wrong)?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory_kib =
            memory.and_then(|text| text.trim().split(' ').next()?.parse().ok()).unwrap_or_default();
        let open_files = fs::read_dir(format!("/proc/{id}/fd")).map_err(wrong)?.count();
        Ok(Self { memory_kib, open_files })
    }
}

/// Checks that replicas hold little more than at the start, now that all sessions have ended.
pub(crate) async fn check_held(
    history: &History,
    deployment: &Deployment,
    before: &[Held],
) -> Result<(), String> {
    // Connections that nginx closed are noticed soon, not at once.
    let mut after = Held::measure(deployment).await?;
    for _ in 0..50 {
        if after
            .iter()
            .zip(before)
            .all(|(after, before)| after.open_files <= before.open_files + MAX_MORE_FILES)
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        after = Held::measure(deployment).await?;
    }
    for (number, (after, before)) in after.iter().zip(before).enumerate() {
        println!("replica {number} holds {after:?}, at the start {before:?}");
        let has_files = after.open_files > before.open_files + MAX_MORE_FILES;
        if has_files || after.memory_kib > before.memory_kib + MAX_MORE_KIB {
            let failure = format!("replica {number} holds {after:?}, at the start {before:?}");
            history.fail(usize::MAX, &failure, &Trace::default());
        }
    }
    Ok(())
}

/// A connection to Redis may just be made again.
const MAX_MORE_FILES: usize = 4;

/// The allocator keeps some of what a run has needed.
const MAX_MORE_KIB: u64 = 48 << 10;
