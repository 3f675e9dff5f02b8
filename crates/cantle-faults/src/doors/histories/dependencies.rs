//! Checks if a history of transactions that append to lists is serializable. Every number is
//! appended once, so the transaction that appended it is known. The lists that were read give the
//! order of all appends, and with it the dependencies (Kingsbury and Alvaro, "Elle", VLDB 2020). A
//! cycle of dependencies is an anomaly, and is reported as text.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// A list of a key.
pub type List = Vec<u64>;

/// The reads and appends of one transaction, without reads of its own appends.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// Readable description of its place.
    pub name: String,
    pub invoked: u64,
    pub returned: u64,
    pub reads: Vec<(usize, List)>,
    /// In their order.
    pub appends: Vec<(usize, u64)>,
    /// True if the transaction was refused: its reads must be of one moment all the same, and its
    /// appends must never be seen.
    pub is_refused: bool,
}

/// The reason why one transaction comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The other transaction made the next append.
    Wrote { key: usize, then: u64 },
    /// The other transaction read an append of the first.
    WasRead { key: usize, number: u64 },
    /// The first transaction did not see an append of the other.
    Missed { key: usize, number: u64 },
    /// The first transaction returned before the other began.
    Returned,
}

/// Checks that there is an order, consistent with real time, in which every transaction reads what
/// it did. If there is none, the error describes the contradiction.
pub fn check(history: &[Transaction]) -> Result<(), String> {
    let orders = orders(history)?;
    let edges = edges(history, &orders);
    match shortest_cycle(&edges) {
        Some(cycle) => Err(tell(history, &edges, &cycle)),
        None => Ok(()),
    }
}

/// For each key, the appended numbers and their transactions, in the order of the appends.
type Orders = BTreeMap<usize, Vec<(u64, usize)>>;

/// The longest list read of each key. All other lists of the key must be prefixes of it.
fn orders(history: &[Transaction]) -> Result<Orders, String> {
    let mut appended = HashMap::new();
    for (index, transaction) in history.iter().enumerate() {
        for &(key, number) in &transaction.appends {
            appended.insert((key, number), index);
        }
    }
    let mut longest: BTreeMap<usize, &List> = BTreeMap::new();
    for (key, list) in history.iter().flat_map(|transaction| &transaction.reads) {
        let known = longest.entry(*key).or_insert(list);
        if list.len() > known.len() {
            *known = list;
        }
    }
    for transaction in history {
        for (key, list) in &transaction.reads {
            if !longest[key].starts_with(list) {
                return Err(format!(
                    "{} read {list:?} of key {key}, which is no beginning of {:?}",
                    transaction.name, longest[key]
                ));
            }
            let last = list.last().and_then(|number| Some((*number, *appended.get(&(*key, *number))?)));
            if let Some((number, writer)) = last {
                let of_writer = history[writer].appends.iter().rev().find(|(written, _)| written == key);
                if of_writer.is_some_and(|&(_, last)| last != number) {
                    return Err(format!(
                        "{} read {number} of key {key}, behind which {} appended more",
                        transaction.name, history[writer].name
                    ));
                }
            }
        }
    }
    let mut orders = Orders::new();
    for (key, list) in longest {
        let mut order = Vec::with_capacity(list.len());
        for &number in list {
            match appended.get(&(key, number)) {
                Some(&writer) if history[writer].is_refused => {
                    let name = &history[writer].name;
                    return Err(format!("{number} of key {key} was seen, though {name} was refused"));
                }
                Some(&writer) => order.push((number, writer)),
                None => return Err(format!("{number} of key {key} was appended by nobody")),
            }
        }
        orders.insert(key, order);
    }
    Ok(orders)
}

type Edges = Vec<Vec<(usize, Why)>>;

fn edges(history: &[Transaction], orders: &Orders) -> Edges {
    let mut edges: Edges = vec![Vec::new(); history.len()];
    let mut add = |from: usize, to: usize, why| {
        if from != to {
            edges[from].push((to, why));
        }
    };
    for (&key, order) in orders {
        for pair in order.windows(2) {
            add(pair[0].1, pair[1].1, Why::Wrote { key, then: pair[1].0 });
        }
    }
    for (reader, transaction) in history.iter().enumerate() {
        for (key, list) in &transaction.reads {
            let (key, order) = (*key, &orders[key]);
            if let Some(&(number, writer)) = list.len().checked_sub(1).and_then(|last| order.get(last)) {
                add(writer, reader, Why::WasRead { key, number });
            }
            // The list is followed by the transaction's own append, or the transaction missed an
            // append.
            if let Some(&(number, writer)) = order.get(list.len()) {
                add(reader, writer, Why::Missed { key, number });
            }
        }
    }
    for (before, first) in history.iter().enumerate() {
        for (after, second) in history.iter().enumerate() {
            if first.returned < second.invoked {
                add(before, after, Why::Returned);
            }
        }
    }
    edges
}

/// The transactions of a cycle, if there is one. Transactions without predecessors are removed
/// until none is left; the rest contains a cycle.
fn shortest_cycle(edges: &Edges) -> Option<Vec<usize>> {
    let mut before = vec![0; edges.len()];
    edges.iter().flatten().for_each(|&(to, _)| before[to] += 1);
    let mut free: Vec<usize> = (0..edges.len()).filter(|&index| before[index] == 0).collect();
    while let Some(index) = free.pop() {
        for &(to, _) in &edges[index] {
            before[to] -= 1;
            if before[to] == 0 {
                free.push(to);
            }
        }
    }
    let left = (0..edges.len()).filter(|&index| before[index] > 0);
    left.filter_map(|start| way_back(edges, start)).min_by_key(Vec::len)
}

/// The shortest path from a transaction to itself.
fn way_back(edges: &Edges, start: usize) -> Option<Vec<usize>> {
    let mut from = vec![None; edges.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(index) = queue.pop_front() {
        for &(to, _) in &edges[index] {
            if to == start {
                let mut way = vec![index];
                while let Some(earlier) = from[*way.last()?] {
                    way.push(earlier);
                }
                way.reverse();
                return Some(way);
            }
            if from[to].is_none() {
                from[to] = Some(index);
                queue.push_back(to);
            }
        }
    }
    None
}

fn tell(history: &[Transaction], edges: &Edges, cycle: &[usize]) -> String {
    let mut text = format!("a cycle of {} transactions:", cycle.len());
    for (place, &index) in cycle.iter().enumerate() {
        let next = cycle[(place + 1) % cycle.len()];
        let (name, other) = (&history[index].name, &history[next].name);
        // A reason by data is more helpful than one by time.
        let whys = || edges[index].iter().filter(|(to, _)| *to == next).map(|(_, why)| *why);
        let why = match whys().find(|why| *why != Why::Returned).unwrap_or(Why::Returned) {
            Why::Wrote { key, then } => format!("appended to key {key} before {other} appended {then}"),
            Why::WasRead { key, number } => format!("appended {number} to key {key}, which {other} read"),
            Why::Missed { key, number } => {
                format!("did not see {number} of key {key}, which {other} appended")
            }
            Why::Returned => format!("had returned before {other} began"),
        };
        text += &format!("\n  {name} {why};");
    }
    for &index in cycle {
        text += &format!("\n  {:?}", history[index]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{List, Transaction, check};

    fn transaction(name: &str, reads: &[(usize, &[u64])], appends: &[(usize, u64)]) -> Transaction {
        let reads = reads.iter().map(|(key, list)| (*key, List::from(*list))).collect();
        Transaction {
            name: name.into(),
            invoked: 0,
            returned: 10,
            reads,
            appends: appends.into(),
            is_refused: false,
        }
    }

    #[test]
    fn what_one_after_the_other_did_passes() {
        let one = transaction("one", &[(0, &[])], &[(0, 1)]);
        let two = transaction("two", &[(0, &[1]), (1, &[])], &[(0, 2), (0, 3), (1, 4)]);
        let reader = transaction("reader", &[(0, &[1, 2, 3]), (1, &[4])], &[]);
        assert_eq!(check(&[reader, two, one]), Ok(()));
    }

    #[test]
    fn write_skew_is_told_as_a_cycle() {
        let one = transaction("one", &[(0, &[]), (1, &[])], &[(0, 1)]);
        let two = transaction("two", &[(0, &[]), (1, &[])], &[(1, 2)]);
        let reader = transaction("reader", &[(0, &[1]), (1, &[2])], &[]);
        let text = check(&[one, two, reader]).unwrap_err();
        assert!(text.starts_with("a cycle of 2 transactions:"), "{text}");
        assert!(text.contains("one did not see 2 of key 1, which two appended;"), "{text}");
        assert!(text.contains("two did not see 1 of key 0, which one appended;"), "{text}");
    }

    #[test]
    fn a_read_that_is_skewed_is_a_cycle() {
        let writer = transaction("writer", &[(0, &[]), (1, &[])], &[(0, 1), (1, 2)]);
        let reader = transaction("reader", &[(0, &[1]), (1, &[])], &[]);
        let last = transaction("last", &[(0, &[1]), (1, &[2])], &[]);
        let text = check(&[writer, reader, last]).unwrap_err();
        assert!(text.contains("reader did not see 2 of key 1, which writer appended;"), "{text}");
        assert!(text.contains("writer appended 1 to key 0, which reader read;"), "{text}");
    }

    #[test]
    fn a_stale_read_is_a_cycle_with_real_time() {
        let writer = Transaction { returned: 1, ..transaction("writer", &[(0, &[])], &[(0, 1)]) };
        let reader = Transaction { invoked: 2, ..transaction("reader", &[(0, &[])], &[]) };
        let last = Transaction { invoked: 2, ..transaction("last", &[(0, &[1])], &[]) };
        let text = check(&[writer, reader, last]).unwrap_err();
        assert!(text.contains("writer had returned before reader began;"), "{text}");
    }

    #[test]
    fn lost_refused_intermediate_and_invented_appends_are_told() {
        let one = transaction("one", &[(0, &[])], &[(0, 1)]);
        let two = transaction("two", &[(0, &[])], &[(0, 2)]);
        let reads = |list: &[u64]| transaction("reader", &[(0, list)], &[]);
        let lost = check(&[one.clone(), reads(&[1]), two.clone(), reads(&[2])]).unwrap_err();
        assert!(lost.contains("which is no beginning of"), "{lost}");
        let refused = Transaction { is_refused: true, ..one.clone() };
        assert!(check(&[refused, reads(&[1])]).unwrap_err().contains("though one was refused"));
        assert!(check(&[reads(&[7])]).unwrap_err().contains("was appended by nobody"));
        let both = transaction("both", &[(0, &[])], &[(0, 1), (0, 2)]);
        let half = check(&[both, reads(&[1]), reads(&[1, 2])]).unwrap_err();
        assert!(half.contains("behind which both appended more"), "{half}");
    }
}
