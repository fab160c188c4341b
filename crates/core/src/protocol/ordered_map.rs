//! A map that keeps the order of its members.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A small map from names to values in insertion order. Names are unique.
///
/// A lookup takes linear time; deserializing and collecting do not take quadratic time.
#[derive(Clone, PartialEq)]
pub struct OrderedMap<T>(Vec<(String, T)>);

impl<T> OrderedMap<T> {
    /// An empty map.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets the value of `name`; the previous value is returned, and its position is kept.
    pub fn insert(&mut self, name: impl Into<String>, value: T) -> Option<T> {
        let name = name.into();
        match self.get_mut(&name) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.0.push((name, value));
                None
            }
        }
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The value of `name`, mutable.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.0.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Removes the value of `name`.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// The names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The values in order, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for OrderedMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OrderedMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Of duplicate names the last value counts, at the position of the first.
impl<T, N: Into<String>> FromIterator<(N, T)> for OrderedMap<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(pairs: I) -> Self {
        let mut places = std::collections::HashMap::new();
        let mut map: Vec<(String, T)> = Vec::new();
        for (name, value) in pairs {
            let name = name.into();
            match places.get(&name).and_then(|place: &usize| map.get_mut(*place)) {
                Some(entry) => entry.1 = value,
                None => {
                    places.insert(name.clone(), map.len());
                    map.push((name, value));
                }
            }
        }
        Self(map)
    }
}

impl<T> IntoIterator for OrderedMap<T> {
    type Item = (String, T);
    type IntoIter = std::vec::IntoIter<(String, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T: Serialize> Serialize for OrderedMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = OrderedMap<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                let mut names = std::collections::HashSet::new();
                while let Some((name, value)) = access.next_entry::<String, T>()? {
                    // A set, not a search: a hostile object with many names must not cost quadratic time.
                    if !names.insert(name.clone()) {
                        let shown: String = name.chars().take(40).collect();
                        return Err(A::Error::custom(format_args!("duplicate member {shown:?}")));
                    }
                    pairs.push((name, value));
                }
                Ok(OrderedMap(pairs))
            }
        }

        deserializer.deserialize_map(Pairs(PhantomData))
    }
}
