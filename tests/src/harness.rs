//! Turns an async function into a named test with a deadline, which gets the services it needs as its arguments.
//!
//! Invariants:
//! - A service starts when the first selected test asks for it, outside that test's deadline.
//! - A test whose service cannot start is never silent: it fails where `CI=true`, elsewhere it is reported as ignored.
//! - A test that hangs, even in a blocking call, ends at its deadline and says at which step it was.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed, Trial};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;

use crate::Result;

/// How long one test may take, without the start of its services.
pub const TEST_DEADLINE: Duration = Duration::from_secs(120);

/// Why a service is not there, such as a program that is not installed.
#[derive(Clone, Debug)]
pub struct Unavailable {
    /// The service's name.
    pub service: &'static str,
    /// What went wrong.
    pub reason: String,
}

/// Something that a test takes as an argument.
pub trait Fixture: Sized + Send + 'static {
    /// Starts it, or waits for its turn.
    fn acquire() -> impl Future<Output = Result<Self, Unavailable>> + Send;
}

/// An async function of no, one or two fixtures. `Arguments` only tells these apart.
pub trait Test<Arguments>: Send + 'static {
    /// All fixtures of the function.
    type Fixtures: Send + 'static;
    /// Acquires the fixtures in the order of the arguments.
    fn acquire() -> impl Future<Output = Result<Self::Fixtures, Unavailable>> + Send;
    /// Runs the function.
    fn run(self, fixtures: Self::Fixtures) -> impl Future<Output = Result> + Send + 'static;
}

impl<F, R> Test<()> for F
where
    F: FnOnce() -> R + Send + 'static,
    R: Future<Output = Result> + Send + 'static,
{
    type Fixtures = ();

    async fn acquire() -> Result<(), Unavailable> {
        Ok(())
    }

    fn run(self, (): ()) -> impl Future<Output = Result> + Send + 'static {
        self()
    }
}

impl<F, R, A: Fixture> Test<(A,)> for F
where
    F: FnOnce(A) -> R + Send + 'static,
    R: Future<Output = Result> + Send + 'static,
{
    type Fixtures = A;

    async fn acquire() -> Result<A, Unavailable> {
        A::acquire().await
    }

    fn run(self, first: A) -> impl Future<Output = Result> + Send + 'static {
        self(first)
    }
}

impl<F, R, A: Fixture, B: Fixture> Test<(A, B)> for F
where
    F: FnOnce(A, B) -> R + Send + 'static,
    R: Future<Output = Result> + Send + 'static,
{
    type Fixtures = (A, B);

    async fn acquire() -> Result<(A, B), Unavailable> {
        Ok((A::acquire().await?, B::acquire().await?))
    }

    fn run(self, (first, second): (A, B)) -> impl Future<Output = Result> + Send + 'static {
        self(first, second)
    }
}

/// Lists async functions as tests, each named by its module and its own name.
#[macro_export]
macro_rules! trials {
    ($($test:ident),* $(,)?) => {
        vec![$($crate::harness::trial(concat!(module_path!(), "::", stringify!($test)), $test)),*]
    };
}

/// Makes one test. `path` begins with the test binary's crate, which is left out of the name.
pub fn trial<Arguments: 'static>(path: &str, test: impl Test<Arguments>) -> Trial {
    let name = path.split_once("::").map_or(path, |(_, name)| name).to_owned();
    Trial::ignorable_test(name.clone(), move || run(&name, test))
}

fn run<Arguments, T: Test<Arguments>>(name: &str, test: T) -> Result<Completion, Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name(name).enable_all().build()?;
    let fixtures = match runtime.block_on(T::acquire()) {
        Ok(fixtures) => fixtures,
        Err(unavailable) => return missing(&unavailable),
    };
    let steps = Steps::default();
    let running = runtime.spawn(STEPS.scope(steps.clone(), test.run(fixtures)));
    let ended = runtime.block_on(async { tokio::time::timeout(TEST_DEADLINE, running).await });
    let outcome = match ended {
        Ok(Ok(Ok(()))) => Ok(Completion::Completed),
        Ok(Ok(Err(error))) => Err(format!("{error}\n{}", steps.describe())),
        Ok(Err(panic)) => Err(format!("{}\n{}", panic_text(panic), steps.describe())),
        Err(_) => Err(hung(&runtime, &steps)),
    };
    // A blocked thread must not keep the test from ending.
    runtime.shutdown_background();
    outcome.map_err(Failed::from)
}

fn missing(unavailable: &Unavailable) -> Result<Completion, Failed> {
    let text = format!("{} is not available: {}", unavailable.service, unavailable.reason);
    if std::env::var("CI").is_ok_and(|ci| ci == "true") { Err(text.into()) } else { Ok(Completion::ignored_with(text)) }
}

fn hung(runtime: &Runtime, steps: &Steps) -> String {
    let tasks = runtime.metrics().num_alive_tasks();
    format!("not done after {TEST_DEADLINE:?}, {tasks} tasks alive\n{}", steps.describe())
}

fn panic_text(panic: JoinError) -> String {
    let Ok(payload) = panic.try_into_panic() else { return "cancelled".into() };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap_or_else(|_| Box::new("a panic without a text"))).into(),
    }
}

tokio::task_local! {
    static STEPS: Steps;
}

/// What a test has done so far, with the time since its start.
#[derive(Clone, Debug)]
struct Steps {
    start: Instant,
    done: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Default for Steps {
    fn default() -> Self {
        Self { start: Instant::now(), done: Arc::default() }
    }
}

impl Steps {
    fn describe(&self) -> String {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> =
            done.iter().map(|(at, what)| format!("  {:>7.3} s  {what}", at.as_secs_f64())).collect();
        format!("steps of the test, ended at {:.3} s:\n{}", self.start.elapsed().as_secs_f64(), lines.join("\n"))
    }
}

/// Notes what the running test does next; it is printed if the test fails or hangs. Outside a test it does nothing.
pub fn step(what: impl Into<String>) {
    let _ = STEPS.try_with(|steps| {
        let at = steps.start.elapsed();
        steps.done.lock().unwrap_or_else(PoisonError::into_inner).push((at, what.into()));
    });
}
