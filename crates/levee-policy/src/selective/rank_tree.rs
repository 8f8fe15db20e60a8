//! Times in order that know their ranks, each with the call that it belongs to: a weight-balanced tree.
//!
//! A node keeps its index as long as it is in the tree, so that a call can name its own.

use alloc::vec::Vec;

use super::calls::Slot;
use crate::Time;

/// Stands for an empty subtree.
const NONE: u32 = u32::MAX;
/// How much heavier one subtree may be than its sibling, and when the inner grandchild must rise: the only pair of whole
/// numbers that keeps every tree balanced (Hirai and Yamamoto, "Balancing weight-balanced trees", JFP 21(3), 2011). A tree of
/// `n` nodes is then at most `log(n + 1) / log(4/3)` deep, 53 for the largest capacity: the depth of every recursion here.
const DELTA: u64 = 3;
const GAMMA: u64 = 2;

#[derive(Clone, Debug)]
struct Node {
    time: Time,
    slot: Slot,
    /// Of the subtree.
    size: u32,
    left: u32,
    right: u32,
}

/// See the module. Equal times are ordered by index.
#[derive(Clone, Debug)]
pub(super) struct RankTree {
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: u32,
}

impl RankTree {
    pub(super) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            root: NONE,
        }
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.free.clear();
        self.root = NONE;
    }

    pub(super) fn len(&self) -> u32 {
        self.size(self.root)
    }

    pub(super) fn time(&self, index: u32) -> Time {
        self.node(index).time
    }

    pub(super) fn slot(&self, index: u32) -> Slot {
        self.node(index).slot
    }

    /// Adds a node; returns its index.
    pub(super) fn insert(&mut self, time: Time, slot: Slot) -> u32 {
        let node = Node {
            time,
            slot,
            size: 1,
            left: NONE,
            right: NONE,
        };
        let index = if let Some(index) = self.free.pop() {
            self.nodes[index as usize] = node;
            index
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        self.root = self.insert_below(self.root, index);
        index
    }

    /// Takes out a node that is in the tree.
    pub(super) fn remove(&mut self, index: u32) {
        self.root = self.remove_below(self.root, index);
        self.free.push(index);
    }

    /// The node with `rank` nodes before it.
    pub(super) fn select(&self, mut rank: u32) -> Option<u32> {
        let mut at = self.root;
        while at != NONE {
            let node = self.node(at);
            let before = self.size(node.left);
            if rank < before {
                at = node.left;
            } else if rank == before {
                return Some(at);
            } else {
                rank -= before + 1;
                at = node.right;
            }
        }
        None
    }

    /// How many times `early` is true of; it must be true of a first part of them.
    pub(super) fn count_while(&self, early: impl Fn(Time) -> bool) -> u32 {
        let mut count = 0;
        let mut at = self.root;
        while at != NONE {
            let node = self.node(at);
            if early(node.time) {
                count += self.size(node.left) + 1;
                at = node.right;
            } else {
                at = node.left;
            }
        }
        count
    }

    fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    fn size(&self, index: u32) -> u32 {
        if index == NONE {
            0
        } else {
            self.node(index).size
        }
    }

    fn weight(&self, index: u32) -> u64 {
        u64::from(self.size(index)) + 1
    }

    fn is_before(&self, one: u32, other: u32) -> bool {
        (self.node(one).time, one) < (self.node(other).time, other)
    }

    /// The root of the subtree with this node added.
    fn insert_below(&mut self, root: u32, index: u32) -> u32 {
        if root == NONE {
            return index;
        }
        if self.is_before(index, root) {
            let left = self.insert_below(self.node(root).left, index);
            self.nodes[root as usize].left = left;
        } else {
            let right = self.insert_below(self.node(root).right, index);
            self.nodes[root as usize].right = right;
        }
        self.balance(root)
    }

    /// The root of the subtree without this node.
    fn remove_below(&mut self, root: u32, index: u32) -> u32 {
        debug_assert!(root != NONE, "not in the tree");
        let &Node { left, right, .. } = self.node(root);
        let root = if root == index {
            // The heavier side gives the new root.
            let (heir, left, right) = match (left, right) {
                (one, NONE) | (NONE, one) => return one,
                _ if self.size(left) > self.size(right) => {
                    let heir = self.last(left);
                    (heir, self.remove_below(left, heir), right)
                }
                _ => {
                    let heir = self.first(right);
                    (heir, left, self.remove_below(right, heir))
                }
            };
            let node = &mut self.nodes[heir as usize];
            (node.left, node.right) = (left, right);
            heir
        } else if self.is_before(index, root) {
            let left = self.remove_below(left, index);
            self.nodes[root as usize].left = left;
            root
        } else {
            let right = self.remove_below(right, index);
            self.nodes[root as usize].right = right;
            root
        };
        self.balance(root)
    }

    fn first(&self, mut at: u32) -> u32 {
        while self.node(at).left != NONE {
            at = self.node(at).left;
        }
        at
    }

    fn last(&self, mut at: u32) -> u32 {
        while self.node(at).right != NONE {
            at = self.node(at).right;
        }
        at
    }

    /// Mends a subtree one side of which has changed by one node; returns its root.
    fn balance(&mut self, root: u32) -> u32 {
        let &Node { left, right, .. } = self.node(root);
        let (l, r) = (self.weight(left), self.weight(right));
        if r > DELTA * l {
            let &Node {
                left: inner,
                right: outer,
                ..
            } = self.node(right);
            if self.weight(inner) >= GAMMA * self.weight(outer) {
                self.nodes[root as usize].right = self.rotate_right(right);
            }
            self.rotate_left(root)
        } else if l > DELTA * r {
            let &Node {
                left: outer,
                right: inner,
                ..
            } = self.node(left);
            if self.weight(inner) >= GAMMA * self.weight(outer) {
                self.nodes[root as usize].left = self.rotate_left(left);
            }
            self.rotate_right(root)
        } else {
            self.resize(root);
            root
        }
    }

    fn rotate_left(&mut self, root: u32) -> u32 {
        let top = self.node(root).right;
        self.nodes[root as usize].right = self.node(top).left;
        self.nodes[top as usize].left = root;
        self.resize(root);
        self.resize(top);
        top
    }

    fn rotate_right(&mut self, root: u32) -> u32 {
        let top = self.node(root).left;
        self.nodes[root as usize].left = self.node(top).right;
        self.nodes[top as usize].right = root;
        self.resize(root);
        self.resize(top);
        top
    }

    fn resize(&mut self, index: u32) {
        let &Node { left, right, .. } = self.node(index);
        self.nodes[index as usize].size = self.size(left) + self.size(right) + 1;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Depth of the subtree, which must be balanced and know its sizes.
    fn check(tree: &RankTree, at: u32) -> u32 {
        if at == NONE {
            return 0;
        }
        let &Node {
            left, right, size, ..
        } = tree.node(at);
        assert_eq!(size, tree.size(left) + tree.size(right) + 1);
        assert!(tree.weight(left) <= DELTA * tree.weight(right));
        assert!(tree.weight(right) <= DELTA * tree.weight(left));
        1 + check(tree, left).max(check(tree, right))
    }

    #[test]
    fn times_in_order_make_no_list() {
        let mut tree = RankTree::new();
        for nanos in 0..100_000 {
            tree.insert(Time::from_nanos(nanos), 0);
        }
        let depth = f64::from(check(&tree, tree.root));
        assert!(depth <= libm::log(100_001.0) / libm::log(4.0 / 3.0));
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(steps in prop::collection::vec((0_u64..60, 0_u32..100, 0_u8..2), 1..400), probe in 0_u64..70) {
            let mut tree = RankTree::new();
            let mut model = BTreeSet::<(u64, u32)>::new();
            for (nanos, pick, what) in steps {
                let picked = model.iter().nth(pick as usize % model.len().max(1)).copied();
                match (picked, what) {
                    (Some((time, index)), 0) => {
                        tree.remove(index);
                        model.remove(&(time, index));
                    }
                    _ => {
                        let index = tree.insert(Time::from_nanos(nanos), pick);
                        prop_assert_eq!(tree.slot(index), pick);
                        prop_assert!(model.insert((nanos, index)));
                    }
                }
                check(&tree, tree.root);
            }
            prop_assert_eq!(tree.len() as usize, model.len());
            for (rank, (nanos, index)) in model.iter().enumerate() {
                prop_assert_eq!(tree.select(rank as u32), Some(*index));
                prop_assert_eq!(tree.time(*index), Time::from_nanos(*nanos));
            }
            prop_assert_eq!(tree.select(tree.len()), None);
            let before = model.range(..(probe, 0)).count();
            prop_assert_eq!(tree.count_while(|time| time < Time::from_nanos(probe)) as usize, before);
        }
    }
}
