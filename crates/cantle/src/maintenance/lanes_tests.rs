//! The order of jobs, without threads. A file of its own, because a model under shuttle includes
//! `lanes.rs`.

use super::lanes::{Class, Lanes, PASSED_MAX};

const WORK: [Class; 4] = [Class::Seal, Class::Level0, Class::Deep, Class::Asked];

/// Takes all jobs of these classes.
fn order(lanes: &mut Lanes<u32>, classes: &[Class]) -> Vec<u32> {
    std::iter::from_fn(|| lanes.take(classes, |_| true)).map(|(_, job)| job).collect()
}

#[test]
fn the_most_urgent_class_is_first_and_each_keeps_its_order() {
    let mut lanes = Lanes::default();
    for (job, class) in (0..).zip([3, 2, 1, 0, 0, 1, 2, 3].map(|at| WORK[at])) {
        lanes.push(class, job);
    }
    lanes.push(Class::Checkpoint, 8);
    assert_eq!(Class::ALL.map(|class| lanes.waiting(class)), [1, 2, 2, 2, 2]);
    assert_eq!(order(&mut lanes, &WORK), [3, 4, 2, 5, 1, 6, 0, 7]);
    assert_eq!(lanes.waiting(Class::Checkpoint), 1, "it is not theirs");
    assert_eq!(lanes.take_all(), [8]);
}

#[test]
fn a_job_that_does_not_fit_is_passed_over() {
    let mut lanes = Lanes::default();
    for (class, job) in [(Class::Seal, 1), (Class::Deep, 1), (Class::Deep, 2), (Class::Deep, 3)] {
        lanes.push(class, job);
    }
    let fits = |job: &u32| *job > 1;
    assert!(lanes.has(&WORK, fits) && !lanes.has(&[Class::Seal], fits));
    assert_eq!(lanes.take(&WORK, fits), Some((Class::Deep, 2)));
    assert_eq!(lanes.take(&WORK, fits), Some((Class::Deep, 3)));
    assert_eq!(lanes.take(&WORK, fits), None);
    assert_eq!(order(&mut lanes, &WORK), [1, 1]);
}

#[test]
fn a_flood_of_urgent_jobs_starves_no_class() {
    let mut lanes = Lanes::default();
    for class in WORK {
        (0..1000).for_each(|job| lanes.push(class, job));
    }
    let taken: Vec<Class> = (0..1000).filter_map(|_| Some(lanes.take(&WORK, |_| true)?.0)).collect();
    for class in [Class::Level0, Class::Deep, Class::Asked] {
        let turns: Vec<usize> = (0..taken.len()).filter(|&at| taken[at] == class).collect();
        assert!(turns.windows(2).all(|pair| pair[1] - pair[0] <= PASSED_MAX as usize + 3), "{class:?}");
        assert!(turns.len() >= 1000 / (PASSED_MAX as usize + 3), "{class:?} had {} turns", turns.len());
    }
    let seals = taken.iter().filter(|&&class| class == Class::Seal).count();
    assert!(seals >= 700, "most turns are of the most urgent: {seals}");
}

#[test]
fn a_class_that_waited_has_one_turn_only() {
    let mut lanes = Lanes::default();
    (0..3).for_each(|job| lanes.push(Class::Asked, 100 + job));
    (0..2 * PASSED_MAX).for_each(|job| lanes.push(Class::Level0, job));
    let taken = order(&mut lanes, &WORK);
    let turns: Vec<usize> = (0..taken.len()).filter(|&at| taken[at] >= 100).collect();
    assert_eq!(turns, [8, 17, 18]);
}
