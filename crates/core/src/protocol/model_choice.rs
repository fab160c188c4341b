//! Choosing a model by the preferences of a server.

use super::sampling::ModelPreferences;

/// A model that a client offers, with its strengths from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelProfile {
    /// The name.
    pub name: String,
    /// How cheap it is.
    pub cheapness: f64,
    /// How fast it is.
    pub speed: f64,
    /// How capable it is.
    pub intelligence: f64,
}

impl ModelProfile {
    /// A model without known strengths.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), cheapness: 0.0, speed: 0.0, intelligence: 0.0 }
    }

    /// Sets how cheap it is, from 0 to 1.
    #[must_use]
    pub fn cheapness(mut self, cheapness: f64) -> Self {
        self.cheapness = cheapness;
        self
    }

    /// Sets how fast it is, from 0 to 1.
    #[must_use]
    pub fn speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    /// Sets how capable it is, from 0 to 1.
    #[must_use]
    pub fn intelligence(mut self, intelligence: f64) -> Self {
        self.intelligence = intelligence;
        self
    }
}

impl ModelPreferences {
    /// Selects one of the models. `None` if there are none.
    ///
    /// The first hint that is part of a model's name wins. Between several models with that hint, and without a match,
    /// the priorities decide, and then the order of the models.
    ///
    /// ```
    /// use tsugite_core::protocol::{ModelHint, ModelPreferences, ModelProfile};
    ///
    /// let models = [ModelProfile::new("plum-large").intelligence(0.9), ModelProfile::new("plum-small").speed(0.9)];
    /// let preferences = ModelPreferences::new().speed_priority(1.0);
    /// assert_eq!(preferences.select(&models).unwrap().name, "plum-small");
    /// let preferences = preferences.hints([ModelHint::new().name("large")]);
    /// assert_eq!(preferences.select(&models).unwrap().name, "plum-large");
    /// ```
    pub fn select<'a>(&self, models: &'a [ModelProfile]) -> Option<&'a ModelProfile> {
        let hints = self.hints.iter().flatten().filter_map(|hint| hint.name.as_deref());
        let mut hints = hints.filter(|hint| !hint.is_empty());
        hints
            .find_map(|hint| self.best(models.iter().filter(|model| model.name.contains(hint))))
            .or_else(|| self.best(models.iter()))
    }

    /// The model with the highest score, the first of equals.
    fn best<'a>(&self, models: impl Iterator<Item = &'a ModelProfile>) -> Option<&'a ModelProfile> {
        models.reduce(|best, model| if self.score(model) > self.score(best) { model } else { best })
    }

    fn score(&self, model: &ModelProfile) -> f64 {
        let weigh = |priority: Option<f64>, strength: f64| priority.unwrap_or_default() * strength;
        weigh(self.cost_priority, model.cheapness)
            + weigh(self.speed_priority, model.speed)
            + weigh(self.intelligence_priority, model.intelligence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ModelHint;

    #[test]
    fn first_matching_hint_outranks_the_priorities() {
        // SAMP-022, SAMP-023
        let models = [
            ModelProfile::new("plum-large").intelligence(1.0),
            ModelProfile::new("plum-small").speed(0.5).cheapness(1.0),
            ModelProfile::new("pear").speed(1.0),
        ];
        let select = |hints: &[&str], preferences: ModelPreferences| {
            let hints: Vec<_> = hints.iter().map(|hint| ModelHint::new().name(*hint)).collect();
            preferences.hints(hints).select(&models).unwrap().name.clone()
        };
        let fast = || ModelPreferences::new().speed_priority(1.0);
        assert_eq!(select(&["apple", "large", "pear"], fast()), "plum-large");
        assert_eq!(select(&["pear", "large"], fast()), "pear");
        assert_eq!(select(&["plum"], fast()), "plum-small");
        assert_eq!(select(&["apple", ""], fast()), "pear");
        assert_eq!(select(&[], ModelPreferences::new()), "plum-large");
        assert_eq!(select(&[], ModelPreferences::new().cost_priority(1.0).speed_priority(0.9)), "plum-small");
        assert_eq!(fast().select(&[]), None);
    }
}
