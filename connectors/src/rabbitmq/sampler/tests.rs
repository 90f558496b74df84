//! The management API, scripted: what is asked, what comes back, and what it means for each query.

use std::time::SystemTime;

use super::*;
use crate::{
    clock::TokioClock,
    egress::Egress,
    http::scripted::{ScriptedServer, reply},
    metadata::Metadata,
    rabbitmq::{CONNECTION_KEYS, Pattern},
    sampler::Limits,
};

mod pages;
mod statuses;

type Outcome = Result<Sample, SampleError>;

fn sampler(metadata: &[(&str, &str)]) -> RabbitMqSampler {
    let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let environment = Environment { clock, egress: Egress::open(), limits: Limits::default() };
    let address = Metadata::new(metadata.iter().copied()).connection(CONNECTION_KEYS);
    RabbitMqSampler::new(&TenantId::local("team-a"), &address, None, &environment).unwrap()
}

fn of(server: &ScriptedServer) -> RabbitMqSampler {
    sampler(&[("host", server.url("127.0.0.1", "/shop").as_str())])
}

fn named(name: &str) -> Query {
    Query { queues: Selection::Named(name.into()), needs: Needs::Lengths }
}

fn rates(name: &str) -> Query {
    Query { needs: Needs::Rates, ..named(name) }
}

fn matching(pattern: &str) -> Query {
    Query { queues: Selection::Matching(Pattern::new(pattern).unwrap()), needs: Needs::Lengths }
}

async fn sample(sampler: &mut RabbitMqSampler, queries: &[Query]) -> Vec<Outcome> {
    let queries: Vec<_> = queries.iter().map(|query| Arc::new(AnyQuery::RabbitMq(query.clone()))).collect();
    sampler.sample(&queries).await
}

fn queues(outcome: &Outcome) -> &Queues {
    match outcome {
        Ok(Sample { data: Data::RabbitMq(queues), .. }) => queues,
        other => panic!("{other:?}"),
    }
}

fn messages(outcome: &Outcome) -> Vec<Option<u64>> {
    queues(outcome).queues.iter().map(|queue| queue.messages).collect()
}

/// A page of `total` queues.
fn page(items: &[String], total: usize) -> Vec<u8> {
    let items = items.join(",");
    let body = format!(
        r#"{{"filtered_count":{total},"items":[{items}],"page_count":1,"page_size":500,"total_count":{total}}}"#
    );
    reply(200, &body)
}

fn item(name: &str, messages: u64) -> String {
    format!(
        r#"{{"name":"{name}","type":"classic","state":"running","messages":{messages},"messages_ready":{messages}}}"#
    )
}

/// What the server was asked, without the headers.
async fn asked(server: ScriptedServer) -> Vec<String> {
    let requests = server.requests().await;
    requests.iter().map(|request| request.lines().next().unwrap().to_owned()).collect()
}

const TOTALS: &str =
    "&sort=name&disable_stats=true&enable_queue_totals=true&columns=name,type,state,messages,messages_ready";
const STATISTICS: &str = "&sort=name&columns=name,type,state,messages,messages_ready,message_stats.publish,\
                          message_stats.deliver_get,message_stats.publish_details.rate,\
                          message_stats.deliver_get_details.rate";

#[tokio::test]
async fn one_listing_serves_queues_and_patterns() {
    let server = ScriptedServer::new(vec![page(&[item("a", 1), item("ab", 2), item("c", 4)], 3)]).await;
    let mut sampler = of(&server);
    let found = sample(&mut sampler, &[named("a"), matching("^A"), matching("x"), named("c"), named("d")]).await;
    assert_eq!(
        found.iter().take(4).map(messages).collect::<Vec<_>>(),
        [vec![Some(1)], vec![Some(1), Some(2)], vec![], vec![Some(4)]]
    );
    assert!(matches!(&found[4], Err(SampleError::NotFound(Subject::Queue(name))) if **name == *"d"));
    assert_eq!(asked(server).await, [format!("GET /api/queues/shop?page=1&page_size=500{TOTALS} HTTP/1.1")]);
}

/// Where a reverse proxy has the API under a path.
#[tokio::test]
async fn b46_b47_the_base_path_is_before_the_api() {
    for (path, more) in
        [("/sub/shop", None), ("/sub", Some(("vhostName", "shop"))), ("/sub/", Some(("vhostName", "shop")))]
    {
        let server = ScriptedServer::new(vec![page(&[item("a", 1)], 1)]).await;
        let host = server.url("127.0.0.1", path).to_string();
        let metadata: Vec<_> = [("host", host.as_str())].into_iter().chain(more).collect();
        assert_eq!(messages(&sample(&mut sampler(&metadata), &[matching("a")]).await[0]), [Some(1)]);
        assert_eq!(asked(server).await, [format!("GET /sub/api/queues/shop?page=1&page_size=500{TOTALS} HTTP/1.1")]);
    }
}

/// As many names as fit in a request are asked for in one, however many queues the virtual host has.
#[tokio::test]
async fn a_few_queues_are_asked_for_by_name() {
    let server = ScriptedServer::new(vec![page(&[item("a", 1), item("A", 9), item("b.c", 2)], 3)]).await;
    let mut sampler = of(&server);
    let found = sample(&mut sampler, &[named("b.c"), named("a"), named("a")]).await;
    assert_eq!(found.iter().map(messages).collect::<Vec<_>>(), [vec![Some(2)], vec![Some(1)], vec![Some(1)]]);
    let filter = "&use_regex=true&name=%5E(%3F:a%7Cb%5C.c)%24";
    assert_eq!(asked(server).await, [format!("GET /api/queues/shop?page=1&page_size=500{TOTALS}{filter} HTTP/1.1")]);
}

/// More names than fit in one request: all pages, unless the virtual host has more of these.
#[tokio::test]
async fn the_fewer_requests_are_chosen_by_count() {
    let names: Vec<_> = (0..150).map(|n| format!("queue-number-{n:03}")).collect();
    let queries: Vec<_> = names.iter().map(|name| named(name)).collect();
    let items: Vec<_> = names.iter().map(|name| item(name, 1)).collect();
    let of_total = |items: &[String]| {
        let count = items.len();
        let body = format!(
            r#"{{"filtered_count":{count},"items":[{}],"page_size":500,"total_count":10000}}"#,
            items.join(",")
        );
        reply(200, &body)
    };
    // The filters split the names in two, in their order.
    let filters = listing::filters(queries.iter()).unwrap();
    let first = filters[0].matches("%7C").count() + 1;
    assert_eq!(filters.len(), 2);
    let server = ScriptedServer::new(vec![
        page(&items, 150),
        page(&items, 150),
        of_total(&items),
        of_total(&items[..first]),
        of_total(&items[first..]),
    ])
    .await;
    let mut sampler = of(&server);
    for _ in 0..4 {
        let found = sample(&mut sampler, &queries).await;
        assert!(found.iter().all(|found| messages(found) == [Some(1)]));
    }
    let asked = asked(server).await;
    assert_eq!(asked.iter().map(|line| line.contains("&name=")).collect::<Vec<_>>(), [false, false, false, true, true]);
}

/// A server that does not know `enable_queue_totals` shows no lengths: its statistics have them, and are older.
#[tokio::test]
async fn a_server_without_totals_is_asked_for_statistics() {
    let bare = r#"{"name":"a","type":"classic","state":"live"}"#.to_owned();
    let server = ScriptedServer::new(vec![page(&[bare], 1), page(&[item("a", 3)], 1), page(&[item("a", 4)], 1)]).await;
    let mut sampler = of(&server);
    for expected in [3, 4] {
        let found = sample(&mut sampler, &[matching("a")]).await;
        assert_eq!((messages(&found[0]), queues(&found[0]).settles), (vec![Some(expected)], Duration::from_secs(6)));
    }
    let lines = [TOTALS, STATISTICS, STATISTICS];
    let lines = lines.map(|view| format!("GET /api/queues/shop?page=1&page_size=500{view} HTTP/1.1"));
    assert_eq!(asked(server).await, lines);
}

/// Exact at once, where the queue itself was asked.
#[tokio::test]
async fn totals_of_a_classic_queue_need_no_time() {
    let server = ScriptedServer::new(vec![page(&[item("a", 0)], 1)]).await;
    let found = sample(&mut of(&server), &[named("a")]).await;
    assert_eq!(queues(&found[0]).settles, Duration::ZERO);
}

fn with_rates(name: &str, publish: f64) -> String {
    let stats = format!(r#""message_stats":{{"publish":9,"publish_details":{{"rate":{publish}}}}}"#);
    item(name, 5).replace('}', &format!(",{stats}}}"))
}

#[tokio::test]
async fn where_rates_are_wanted_one_listing_of_statistics_serves_all() {
    let server = ScriptedServer::new(vec![page(&[with_rates("a", 1.5), item("b", 7)], 2)]).await;
    let found = sample(&mut of(&server), &[rates("a"), named("b"), rates("b")]).await;
    let queue = &queues(&found[0]).queues[0];
    assert_eq!((queue.messages, queue.publish_rate, queue.deliver_rate), (Some(5), Some(1.5), Some(0.0)));
    assert_eq!(messages(&found[1]), [Some(7)]);
    assert_eq!(queues(&found[2]).queues[0].publish_rate, Some(0.0)); // cases.md B61
    assert_eq!(asked(server).await.len(), 1);
}

/// The lengths are known from the totals.
#[tokio::test]
async fn b60_without_statistics_lengths_work_and_rates_are_an_error() {
    let bare = r#"{"name":"a","type":"classic","state":"live"}"#.to_owned();
    let overview = r#"{"rates_mode":"basic","disable_stats":true}"#;
    let server = ScriptedServer::new(vec![page(&[bare], 1), page(&[item("a", 3)], 1), reply(200, overview)]).await;
    let found = sample(&mut of(&server), &[rates("a"), named("a")]).await;
    assert!(matches!(found[0], Err(SampleError::NoStatistics)), "{:?}", found[0]);
    assert_eq!(messages(&found[1]), [Some(3)]);
    assert_eq!(asked(server).await[2], "GET /api/overview?columns=rates_mode,disable_stats HTTP/1.1");
}

/// A queue is in the statistics only after their next tick.
#[tokio::test]
async fn s26_a_queue_that_has_no_statistics_yet_is_not_at_rate_0() {
    let bare = r#"{"name":"a","type":"classic","state":"live"}"#.to_owned();
    let overview = r#"{"rates_mode":"basic","disable_stats":false}"#;
    let server = ScriptedServer::new(vec![page(&[bare], 1), page(&[item("a", 3)], 1), reply(200, overview)]).await;
    let found = sample(&mut of(&server), &[rates("a"), named("a")]).await;
    assert!(matches!(found[0], Err(SampleError::NotReady(UNKNOWN))), "{:?}", found[0]);
    assert_eq!(messages(&found[1]), [Some(3)]);
}

#[tokio::test]
async fn s25_queues_without_a_counter_or_a_leader_make_a_sample_partial_and_never_0() {
    let bare = r#"{"name":"b","type":"quorum","state":"running"}"#.to_owned();
    let down = item("c", 0).replace("running", "down");
    let items = [item("a", 3), bare, down];
    let server = ScriptedServer::new(vec![page(&items, 3), page(&items, 3)]).await;
    let found = sample(&mut of(&server), &[named("a"), named("b"), named("c"), matching("")]).await;
    assert_eq!(messages(&found[0]), [Some(3)]);
    assert!(matches!(found[1], Err(SampleError::NotReady(UNKNOWN))), "{:?}", found[1]);
    assert!(matches!(found[2], Err(SampleError::NotReady(NOT_RUNNING))), "{:?}", found[2]);
    assert_eq!(messages(&found[3]), [Some(3), None, None]);
    assert!(found[3].as_ref().unwrap().missing.is_some());
}
