//! The record that a proof was used, so that no proof is accepted twice.

use std::time::Duration;

use tsugite::store::{Precondition, Store, StoreError, Write};

use super::verify::VerifiedProof;
use crate::jose::sha256_text;

/// Records a proof as used. Returns whether it was unused. After an error the proof must not be accepted.
pub(crate) async fn use_once(store: &dyn Store, proof: &VerifiedProof, now: u64) -> Result<bool, StoreError> {
    // A digest, because the store needs short keys and need not know the ids.
    let key = format!("dpop/{}", sha256_text(&format!("{}.{}", proof.thumbprint, proof.id)));
    let write = Write::Set {
        key: &key,
        field: "used",
        value: Vec::new().into(),
        precondition: Precondition::FieldAbsent,
        ttl: Duration::from_secs(proof.seconds_to_remember(now)),
    };
    let committed = store.commit(&[write]).await?;
    Ok(committed.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsugite::store::MemoryStore;

    #[tokio::test(start_paused = true)]
    async fn proof_is_used_once_while_it_is_valid() {
        let (store, now) = (MemoryStore::new(), 1000);
        let proof = |thumbprint: &str, id: &str| VerifiedProof {
            thumbprint: thumbprint.to_owned(),
            id: id.to_owned(),
            nonce: None,
            issued_at: now,
        };
        assert!(use_once(&store, &proof("k", "1"), now).await.unwrap());
        assert!(!use_once(&store, &proof("k", "1"), now).await.unwrap());
        assert!(use_once(&store, &proof("k", "2"), now).await.unwrap());
        assert!(use_once(&store, &proof("l", "1"), now).await.unwrap());
        tokio::time::advance(Duration::from_secs(300)).await;
        assert!(!use_once(&store, &proof("k", "1"), now + 300).await.unwrap());
        // A replica whose clock is a minute behind still accepts the proof.
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!use_once(&store, &proof("k", "1"), now + 300).await.unwrap());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(use_once(&store, &proof("k", "1"), now + 362).await.unwrap());
    }
}
