//! Listings of several pages: all of them, or an answer that does not take the rest for nothing.

use super::*;

/// The pages of `total` queues, of which the last `full` have a message each.
fn listing(total: usize, full: usize) -> Vec<Vec<u8>> {
    let items: Vec<_> = (0..total).map(|n| item(&format!("q{n:05}"), u64::from(n + full >= total))).collect();
    items.chunks(500).map(|items| page(items, total)).collect()
}

fn sum(outcome: &Outcome) -> u64 {
    messages(outcome).into_iter().map(Option::unwrap).sum()
}

#[tokio::test]
async fn b50_all_pages_count() {
    let server = ScriptedServer::new(listing(1_300, 300)).await;
    let found = sample(&mut of(&server), &[matching("^q")]).await;
    assert_eq!((sum(&found[0]), messages(&found[0]).len()), (300, 1_300));
    assert!(found[0].as_ref().unwrap().missing.is_none());
    let pages = [1, 2, 3].map(|page| format!("GET /api/queues/shop?page={page}&page_size=500{TOTALS} HTTP/1.1"));
    assert_eq!(asked(server).await, pages);
}

#[tokio::test]
async fn b70_ten_thousand_queues_are_twenty_requests() {
    let server = ScriptedServer::new(listing(10_000, 10_000)).await;
    let mut queries: Vec<_> = (0..10_000).step_by(10).map(|n| named(&format!("q{n:05}"))).collect();
    queries.push(matching("."));
    let found = sample(&mut of(&server), &queries).await;
    assert!(found.iter().all(Result::is_ok));
    assert_eq!(sum(found.last().unwrap()), 10_000);
    assert_eq!(asked(server).await.len(), 20);
}

/// A page that fails fails all: what it holds is not known.
#[tokio::test]
async fn a_page_that_fails_is_an_error() {
    let mut pages = listing(1_300, 0);
    pages[2] = reply(500, "");
    let server = ScriptedServer::new(pages).await;
    let found = sample(&mut of(&server), &[matching("^q"), named("q00001")]).await;
    assert!(found.iter().all(|found| matches!(found, Err(SampleError::Unreachable(_)))), "{found:?}");
}

/// Queues come and go between two pages: then one may be on neither.
#[tokio::test]
async fn a_listing_that_moves_is_read_again() {
    let (mut moving, whole) = (listing(1_000, 0), listing(1_000, 1_000));
    moving[1] = listing(999, 0)[1].clone();
    let server = ScriptedServer::new([moving, whole].concat()).await;
    let found = sample(&mut of(&server), &[matching("^q")]).await;
    assert_eq!(sum(&found[0]), 1_000);
    assert!(found[0].as_ref().unwrap().missing.is_none());
    assert_eq!(asked(server).await.len(), 4);
}

/// It counts fewer queues than it shows, or shows fewer than it counts, for ever; or its end moves.
#[tokio::test]
async fn a_listing_that_never_agrees_is_partial() {
    let short = page(&[item("a", 3)], 2);
    let out_of_range = reply(400, r#"{"error":"page_out_of_range"}"#);
    let moved = vec![listing(600, 0)[0].clone(), out_of_range];
    for (replies, known) in [(vec![short.clone(), short], "a"), ([moved.clone(), moved].concat(), "q00001")] {
        let server = ScriptedServer::new(replies).await;
        let found = sample(&mut of(&server), &[matching("."), named(known), named("zzz")]).await;
        assert!(found[0].as_ref().unwrap().missing.is_some());
        assert!(found[1].is_ok(), "{:?}", found[1]);
        assert!(matches!(found[2], Err(SampleError::NotReady(MOVING))), "{:?}", found[2]);
    }
}

#[tokio::test]
async fn b68_a_pattern_that_matches_nothing_is_a_whole_sample() {
    let server = ScriptedServer::new(vec![page(&[], 0)]).await;
    let found = sample(&mut of(&server), &[matching("x")]).await;
    assert!(messages(&found[0]).is_empty() && queues(&found[0]).matched);
    assert!(found[0].as_ref().unwrap().missing.is_none());
}
