//! nginx in front of replicas.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use super::{START_ATTEMPTS, TempDir, free_port};

/// nginx on loopback, which gives each request to the next of its upstreams. It is stopped on drop.
#[derive(Debug)]
pub struct Nginx {
    child: Child,
    /// Removed after nginx has ended.
    _folder: TempDir,
    address: SocketAddr,
}

impl Nginx {
    /// Starts `nginx`, or the program that `TSUGITE_NGINX` names.
    pub fn start(upstreams: &[SocketAddr]) -> Result<Self, String> {
        let program = env::var("TSUGITE_NGINX").unwrap_or_else(|_| "nginx".to_owned());
        let advice = format!(
            "cannot run {program}; install nginx (Debian: `apt-get install nginx` as root), or let TSUGITE_NGINX name the \
             program"
        );
        for _ in 0..START_ATTEMPTS {
            if let Some(nginx) = Self::start_once(&program, upstreams)
                .map_err(|error| format!("{advice}\n  error: {error}"))?
            {
                return Ok(nginx);
            }
        }
        Err(format!("{program} does not start"))
    }

    /// `None` if it exits at once, since its port is taken.
    fn start_once(program: &str, upstreams: &[SocketAddr]) -> io::Result<Option<Self>> {
        let (folder, port) = (TempDir::create("nginx")?, free_port()?);
        let config = folder.path().join("nginx.conf");
        fs::write(&config, configuration(port, upstreams))?;
        let child = Command::new(program)
            .arg("-p")
            .arg(folder.path())
            .args(["-e", "stderr", "-c"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("errors.txt"))?)
            .spawn()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut nginx = Self { child, _folder: folder, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if nginx.child.try_wait()?.is_some() || start.elapsed() >= START_TIMEOUT {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(10));
        }
        // Its own, not that of a program that was faster.
        Ok(nginx.child.try_wait()?.is_none().then_some(nginx))
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plain round robin: nothing is sticky, and no request is sent twice.
fn configuration(port: u16, upstreams: &[SocketAddr]) -> String {
    let servers: String =
        upstreams.iter().map(|upstream| format!("        server {upstream} max_fails=0;\n")).collect();
    format!(
        "daemon off;
master_process off;
pid nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream replicas {{
{servers}    }}
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size 0;
        location / {{
            proxy_pass http://replicas;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection \"\";
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_read_timeout 1h;
            proxy_next_upstream off;
        }}
    }}
}}
"
    )
}

const START_TIMEOUT: Duration = Duration::from_secs(10);
