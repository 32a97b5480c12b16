//! What the search cache keeps, answers and forgets.

use super::*;

fn scores(cache: &SearchCache, key: u64, moves: usize) -> Option<Vec<i16>> {
    let mut scores = vec![7];
    let is_known = cache.read_scores(key, moves, &mut scores);
    assert_eq!(is_known, cache.has_scores(key, Some(moves)));
    is_known.then_some(scores)
}

#[test]
fn scores_are_lost_only_when_the_ring_has_come_around() {
    let cache = SearchCache::new(1);
    cache.store_scores(7 << 40, &[1, -2, 3]);
    assert_eq!(scores(&cache, 7 << 40, 3), Some(vec![1, -2, 3]));
    assert_eq!(scores(&cache, 8 << 40, 3), None);
    let capacity = (1 << 20) * 7 / 16 / size_of::<i16>();
    for key in 1..=(capacity / 200) as u64 + 1 {
        cache.store_scores(key << 50 | 1, &(0..200).collect::<Vec<_>>());
    }
    assert_eq!(scores(&cache, 7 << 40, 3), None);
}

#[test]
fn nothing_is_left_after_clearing() {
    let mut cache = SearchCache::new(1);
    let found = Bounds { lower: 1, upper: 2, best: 0 };
    for key in [0, 5] {
        let nothing = |cache: &SearchCache| {
            cache.bounds(key, 0).is_none()
                && cache.bounds(key, 1).is_none()
                && cache.value(key).is_none()
                && scores(cache, key, 2).is_none()
                && cache.best_move(key) == NO_MOVE
                && cache.fill_per_mille() == 0
        };
        assert!(nothing(&cache), "{key}");
        cache.store_value(key, -3);
        assert_eq!(cache.value(key), Some(-3));
        cache.clear();
        assert!(nothing(&cache), "{key}");
        cache.store_scores(key, &[4, 5]);
        assert_eq!(scores(&cache, key, 2), Some(vec![4, 5]));
        cache.clear();
        assert!(nothing(&cache), "{key}");
        cache.store_bounds(key, 0, found);
        cache.store_bounds(key, 1, found);
        assert_eq!((cache.bounds(key, 0), cache.best_move(key)), (Some(found), 0));
        cache.forget_leaves();
        assert_eq!((cache.bounds(key, 0), cache.bounds(key, 1)), (None, Some(found)));
        cache.clear();
        assert!(nothing(&cache), "{key}");
    }
}

#[test]
fn bounds_narrow_and_older_roots_only_order() {
    let cache = SearchCache::new(1);
    cache.store_bounds(5, 2, Bounds { lower: 10, upper: INFINITY, best: 3 });
    cache.store_bounds(5, 2, Bounds { lower: -INFINITY, upper: 40, best: NO_MOVE });
    assert_eq!(cache.bounds(5, 2), Some(Bounds { lower: 10, upper: 40, best: 3 }));
    assert_eq!(cache.bounds(5, 3), None);
    cache.new_root();
    assert_eq!(cache.bounds(5, 2), None);
    assert_eq!(cache.best_move(5), 3);
}

#[test]
fn deeper_bounds_answer_where_they_may() {
    let cache = SearchCache::new(1);
    let at_least = |lower| Bounds { lower, upper: INFINITY, best: NO_MOVE };
    cache.store_bounds(5, 2, at_least(10));
    cache.store_bounds(5, 4, at_least(30));
    cache.store_bounds(5, 0, at_least(20));
    let answer = |cache: &SearchCache, depth, deeper, bound| {
        cache.answer(5, depth, deeper, |known| known.lower >= bound).map(|known| known.lower)
    };
    assert_eq!(answer(&cache, 2, None, 10), Some(10));
    assert_eq!(answer(&cache, 2, None, 20), None);
    assert_eq!(answer(&cache, 2, Some(2), 20), Some(30));
    assert_eq!(answer(&cache, 2, Some(2), 10), Some(30), "the deepest");
    assert_eq!(answer(&cache, 2, Some(5), 20), None);
    assert_eq!(answer(&cache, 4, Some(4), 40), None);
    cache.new_root();
    assert_eq!(answer(&cache, 2, Some(2), 10), None);
    assert_eq!(answer(&cache, 0, None, 10), Some(20), "leaves know no root");
    // New bounds replace contradicting ones.
    cache.store_bounds(5, 0, Bounds { lower: -INFINITY, upper: 15, best: NO_MOVE });
    assert_eq!(cache.bounds(5, 0), Some(Bounds { lower: -INFINITY, upper: 15, best: NO_MOVE }));
}
