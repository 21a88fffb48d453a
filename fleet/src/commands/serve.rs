// SPDX-License-Identifier: MIT OR Apache-2.0
//! `serve` and `token`.

use clap::Args;
use sediment_core::{Error, ErrorCode, Result};
use sediment_fleet::intake::keeper::{Maintenance, Segments};
use sediment_fleet::intake::server::{Settings, serve};
use sediment_fleet::intake::tokens::Tokens;
use sediment_fleet::submission::LONGEST_WORD;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folder, or s3://BUCKET/PREFIX; made if it does not exist
    dataset: String,
    /// File of tokens, written by `token`
    #[arg(long, value_name = "FILE")]
    tokens: PathBuf,
    /// File of the secret for keys of submitters; made with the dataset [default: DATASET.secret]
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Address to listen on; use a proxy for TLS
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8440")]
    listen: SocketAddr,
    /// Folder of the log, on a disk of this machine [default: the folder log of the dataset]
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// File of packages for profiles from profilers, one on each line: build-id, tab, NAME-VERSION-RELEASE [default: service.name and service.version]
    #[arg(long, value_name = "FILE")]
    build_ids: Option<PathBuf>,
    /// Maximum size of a submission, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 16 * 1024)]
    max_size: usize,
    /// Maximum number of submissions of a submitter per minute
    #[arg(long, value_name = "COUNT", default_value_t = 600)]
    rate: u32,
    /// Maximum number of simultaneous submissions of a submitter
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    at_once: usize,
    /// Maximum seconds for a request, including its answer
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    request_timeout: u64,
    /// Maximum seconds until a submission has arrived
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    receive_timeout: u64,
    /// Memory for submissions during their receipt, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 48)]
    memory: usize,
    /// Maximum number of connections
    #[arg(long, value_name = "COUNT", default_value_t = 512)]
    connections: usize,
    /// Maximum seconds until received submissions are in the dataset
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    every: u64,
    /// Seconds between combinations of small files and removals of old files; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    maintain_every: u64,
    /// Hours for which files of earlier snapshots are kept
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    retention: u32,
    /// Show functions on pages, and in downloaded profiles, only if at least this number of submitters executed them
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    min_submitters: u32,
    /// Folder of shipped profiles, PACKAGE.gv, for comparisons on pages [default: none]
    #[arg(long, value_name = "DIR")]
    shipped: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let log = match &options.log {
        Some(log) => log.clone(),
        None if options.dataset.starts_with("s3://") => {
            return Err(Error::new(
                ErrorCode::Usage,
                "a dataset in an object store needs a folder for the log",
            )
            .with_hint("--log DIR, on a disk of this machine"));
        }
        None => PathBuf::from(&options.dataset).join("log"),
    };
    let settings = Settings {
        place: options.dataset.clone(),
        secret: options.secret.clone(),
        listen: options.listen,
        log,
        tokens: options.tokens.clone(),
        build_ids: options.build_ids.clone(),
        size: options.max_size << 10,
        rate: options.rate,
        at_once: options.at_once,
        longest: Duration::from_secs(options.request_timeout),
        timeout: Duration::from_secs(options.receive_timeout),
        memory: options.memory << 20,
        connections: options.connections,
        segments: Segments { age: Duration::from_secs(options.every.max(1)), ..Segments::default() },
        maintenance: Maintenance {
            every: (options.maintain_every > 0).then(|| Duration::from_secs(options.maintain_every)),
            retention: options.retention,
        },
        min_submitters: options.min_submitters,
        shipped: options.shipped.clone(),
    };
    serve(settings, |address| {
        let mut output = std::io::stdout().lock();
        let _ = writeln!(output, "listening at http://{address}").and_then(|()| output.flush());
    })
}

#[derive(Debug, Args)]
pub(crate) struct TokenOptions {
    /// File of tokens, to which the hash is added; made if it does not exist
    file: PathBuf,
    /// Name of the submitter; only the site sees it
    name: String,
    /// Class of the submitter's hosts
    host_class: String,
}

pub(crate) fn token(options: &TokenOptions) -> Result<()> {
    let io = |error: std::io::Error| {
        Error::new(ErrorCode::Io, error.to_string()).with_input(options.file.display().to_string())
    };
    if [&options.name, &options.host_class]
        .iter()
        .any(|word| word.is_empty() || word.chars().any(char::is_control))
    {
        return Err(Error::new(ErrorCode::Usage, "a name must not be empty or contain control characters"));
    }
    if options.name.len() > LONGEST_WORD || options.host_class.len() > LONGEST_WORD {
        return Err(Error::new(ErrorCode::Usage, format!("a name is longer than {LONGEST_WORD} bytes")));
    }
    let mut random = [0u8; 32];
    std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random)).map_err(io)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&options.file).map_err(io)?;
    file.write_all(Tokens::line(&token, &options.name, &options.host_class).as_bytes()).map_err(io)?;
    println!("{token}");
    Ok(())
}
