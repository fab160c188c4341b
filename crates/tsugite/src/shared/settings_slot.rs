//! Settings that a server keeps for a transport without knowing their type.
//!
//! The server imports no transport, so it cannot name the type. Only the transport that owns a slot reads and writes it,
//! always as the same type.

use std::any::Any;
use std::sync::{Arc, OnceLock};

/// The settings of one transport, or of a part of it. Clones share the defaults that the first reader made.
#[derive(Clone, Default)]
pub(crate) struct SettingsSlot(Arc<OnceLock<Box<dyn Any + Send + Sync>>>);

impl SettingsSlot {
    /// Returns the settings; the defaults if none were set.
    pub(crate) fn get<T: Clone + Default + Send + Sync + 'static>(&self) -> T {
        let settings = self.0.get_or_init(|| Box::new(T::default()));
        settings.downcast_ref::<T>().cloned().unwrap_or_default()
    }

    /// Changes the settings of this clone.
    pub(crate) fn update<T: Clone + Default + Send + Sync + 'static>(&mut self, change: impl FnOnce(&mut T)) {
        let mut settings = self.get::<T>();
        change(&mut settings);
        self.0 = Arc::new(OnceLock::from(Box::new(settings) as Box<dyn Any + Send + Sync>));
    }
}

impl std::fmt::Debug for SettingsSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SettingsSlot").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_defaults_but_not_changes() {
        #[derive(Clone, Default)]
        struct Settings(Arc<()>, u8);

        let mut slot = SettingsSlot::default();
        let before = slot.clone();
        assert!(Arc::ptr_eq(&slot.get::<Settings>().0, &before.get::<Settings>().0));
        slot.update(|settings: &mut Settings| settings.1 = 7);
        assert!(Arc::ptr_eq(&slot.get::<Settings>().0, &before.get::<Settings>().0));
        assert_eq!((slot.get::<Settings>().1, before.get::<Settings>().1), (7, 0));
    }
}
