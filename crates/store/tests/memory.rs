//! The store in memory keeps the rules of the contract.

use std::sync::Arc;

use tsugite_store::{MemoryStore, Store, suite};

#[tokio::test(start_paused = true)]
async fn memory_store_keeps_the_contract() {
    for store in [MemoryStore::new(), MemoryStore::new().shared()] {
        let store: Arc<dyn Store> = Arc::new(store);
        suite::run(&store, "memory").await.unwrap();
    }
}
