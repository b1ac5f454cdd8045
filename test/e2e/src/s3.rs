//! A real S3 server on this machine: versitygw, which keeps its objects in a folder.

use crate::bench::Bench;
use crate::server::wait_until;
use crate::tool::built_tool;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const KEY: &str = "tonearm-tests";
const SECRET: &str = "a-secret-of-tests";
/// The bucket.
const BUCKET: &str = "backup";
/// Longest time until it answers.
const READY: Duration = Duration::from_secs(30);

/// An S3 server with one bucket, in the folder of a test. It is killed when it is dropped.
pub struct S3 {
    folder: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl S3 {
    /// Starts it, and gives the commands of `bench` its address and keys.
    #[track_caller]
    pub fn start(bench: &mut Bench) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let folder = bench.path("s3");
        std::fs::create_dir_all(folder.join(BUCKET)).expect("a bucket");
        let mut server = Self {
            folder,
            port,
            child: None,
        };
        server.known_to(bench);
        server.restart();
        server
    }

    /// Gives the commands of another machine its address and keys.
    pub fn known_to(&self, bench: &mut Bench) {
        let address = format!("http://127.0.0.1:{}", self.port);
        for (name, value) in [
            ("AWS_ENDPOINT_URL", address.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
        ] {
            bench.set_env(name, value);
        }
    }

    /// Address of an archive in the bucket.
    pub fn url(&self, name: &str) -> String {
        format!("s3://{BUCKET}/{name}")
    }

    /// Kills it with SIGKILL. Its objects stay.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("an end");
        }
    }

    /// Starts it again after [`S3::kill`].
    #[track_caller]
    pub fn restart(&mut self) {
        let address = format!("127.0.0.1:{}", self.port);
        let child = Command::new(built_tool("versitygw"))
            .args(["--port", &address, "--access", KEY, "--secret", SECRET])
            .args(["--quiet", "posix"])
            .arg(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("versitygw runs"));
        wait_until("an S3 server", READY, || {
            TcpStream::connect(&address).is_ok()
        });
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.kill();
    }
}
