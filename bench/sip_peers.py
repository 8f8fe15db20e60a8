"""SIPp, Kamailio and Levee as bounded processes on loopback, for the benchmarks in this folder.

Every process gets a folder, free ports of 127.0.0.1, and a lifetime that `timeout` of GNU coreutils enforces; it is
stopped by its own id. Only the Python standard library is used.
"""

import csv
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
KAMAILIO_CFG = ROOT / "crates/levee-lab/src/peers/kamailio.cfg"
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
START_MAX_S = 20.0
STOP_MAX_S = 10.0
START_TRIES = 5
# SIPp asks for this; the kernel grants at most net.core.rmem_max.
SOCKET_BUFFER_BYTES = 8 * 1024 * 1024


class PeerError(Exception):
    """A peer is missing, did not start, or ended too soon."""


def find(program, package):
    """The path of a program, or an error that says how to get it."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    found = shutil.which(program, path=path)
    if not found:
        raise PeerError(f"{program} is not installed: install it with `apt-get install {package}`")
    return found


def find_levee(given=None):
    """The release binary of Levee: the one given, or the one that cargo builds."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = pathlib.Path(given) if given else target / "release" / "levee"
    if not path.is_file():
        raise PeerError(f"{path} does not exist: build it with `cargo build --release`, or name it with --levee")
    return str(path.resolve())


def free_port():
    """A UDP port of 127.0.0.1 that nobody has now. Another process may take it before it is used: see `retrying`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_media_port():
    """A port of which the second next is free too: SIPp binds both, for audio and for video."""
    for _ in range(100):
        port = free_port()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second:
            try:
                second.bind(("127.0.0.1", port + 2))
                return port
            except (OSError, OverflowError):
                continue
    raise PeerError("no free port for media")


def free_tcp_port():
    """The same for TCP."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """One program with a bounded life, in a process group of its own."""

    def __init__(self, name, argv, folder, lifetime_s, env=None):
        self.name = name
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.output = self.folder / f"{name}.out"
        bounded = ["timeout", "--signal=TERM", "--kill-after=5s", f"{lifetime_s:.1f}s", *map(str, argv)]
        with open(self.output, "wb") as out:
            self.child = subprocess.Popen(
                bounded,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    def running(self):
        return self.child.poll() is None

    def wait(self, timeout_s):
        """Whether it ended within the time."""
        try:
            self.child.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            return False

    def wait_until(self, what, ready):
        """Waits until `ready()`; an end or a delay is an error that shows the output."""
        deadline = time.monotonic() + START_MAX_S
        while True:
            if not self.running():
                raise PeerError(f"{self.name} ended at its start ({self.ended_how()}):\n{self.tail()}")
            if ready():
                return
            if time.monotonic() > deadline:
                raise PeerError(f"{self.name}: no {what} within {START_MAX_S:.0f} s:\n{self.tail()}")
            time.sleep(0.01)

    def ended_how(self):
        """Its exit status, or the signal that ended it, as `timeout` passes it on."""
        code = self.child.poll()
        if code is None:
            return "still running"
        if code == 124:
            return "its lifetime was over"
        return f"signal {-code}" if code < 0 else f"signal {code - 128}" if code > 128 else f"status {code}"

    def tail(self):
        """What it printed about a port that was taken, and the end of the rest."""
        text = self.output.read_text(errors="replace")
        taken = [line for line in text.splitlines() if "address already in use" in line.lower()]
        return "\n".join(taken[-1:] + [text[-2000:]])

    def stop(self):
        """SIGTERM, and SIGKILL for its group if it does not obey."""
        if self.running():
            self.child.terminate()
            if not self.wait(STOP_MAX_S):
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def pids(self):
        """The program's processes: everything below `timeout`, which itself only waits."""
        parents = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                fields = stat_fields(entry.name)
                if fields:
                    parents.setdefault(int(fields[1]), []).append(int(entry.name))
        found, open_ = [], [self.child.pid]
        while open_:
            children = parents.get(open_.pop(), [])
            found += children
            open_ += children
        return found

    def cpu_s(self):
        """User and system seconds of its processes so far."""
        fields = filter(None, (stat_fields(pid) for pid in self.pids()))
        return sum(int(f[11]) + int(f[12]) for f in fields) / TICKS

    def rss_kib(self):
        """Resident memory of its processes."""
        fields = filter(None, (stat_fields(pid) for pid in self.pids()))
        return sum(int(f[21]) for f in fields) * PAGE_KIB


def stat_fields(pid):
    """The fields of /proc/PID/stat after the name: state, ppid, ... (11: utime, 12: stime, 21: rss)."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def retrying(start):
    """Runs `start()` again while a port was taken between its choice and its use."""
    for tries in range(START_TRIES):
        try:
            return start()
        except PeerError as error:
            taken = "address already in use" in str(error).lower()
            if not taken or tries + 1 == START_TRIES:
                raise


def udp_bound(port):
    """Whether some process has bound this UDP port of 127.0.0.1."""
    wanted = f"0100007F:{port:04X}" if sys.byteorder == "little" else f"7F000001:{port:04X}"
    lines = pathlib.Path("/proc/net/udp").read_text().splitlines()
    return any(line.split()[1] == wanted for line in lines[1:])


def answers_options(port):
    """Whether a SIP element at this port answers an OPTIONS that is for itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        probe.settimeout(0.05)
        mine = probe.getsockname()[1]
        request = (
            f"OPTIONS sip:127.0.0.1:{port} SIP/2.0\r\n"
            f"Via: SIP/2.0/UDP 127.0.0.1:{mine};branch=z9hG4bKup{mine};rport\r\n"
            f"From: <sip:up@127.0.0.1:{mine}>;tag=up\r\nTo: <sip:127.0.0.1:{port}>\r\n"
            f"Call-ID: up-{mine}\r\nCSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
        try:
            probe.sendto(request.encode(), ("127.0.0.1", port))
            return probe.recv(4096).startswith(b"SIP/2.0 ")
        except (TimeoutError, ConnectionRefusedError):
            return False


def http_ok(url, timeout_s=1.0):
    """Whether a GET is answered 200 in time."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            return answer.status == 200
    except OSError:
        return False


# --- Kamailio -----------------------------------------------------------------------------------------------------


def kamailio(folder, callee_port, dialog, lifetime_s, children=2):
    """A Kamailio that passes calls to the callee: `tm` alone, or with dialogs. Returns (process, port)."""

    def start():
        port = free_port()
        lines = [line for line in KAMAILIO_CFG.read_text().splitlines() if not line.startswith("# ")]
        text = "\n".join(lines) + "\n"
        for blank, value in (
            ("@DEFINES@", "#!define DIALOG" if dialog else ""),
            ("@LISTEN@", f"127.0.0.1:{port}"),
            ("@CHILDREN@", str(children)),
            ("@CALLEE@", f"127.0.0.1:{callee_port}"),
            ("@NEXT_HOP@", f"127.0.0.1:{callee_port}"),
        ):
            text = text.replace(blank, value)
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / "kamailio.cfg").write_text(text)
        # 512 MB shared: transactions stay for half a minute after a call.
        argv = [find("kamailio", "kamailio"), "-f", "kamailio.cfg", "-DD", "-E", "-m", 512, "-Y", path, "-w", path]
        process = Process("kamailio", argv, path, lifetime_s)
        try:
            process.wait_until("answer to OPTIONS", lambda: answers_options(port))
        except PeerError:
            process.stop()
            raise
        return process, port

    return retrying(start)


# --- Levee --------------------------------------------------------------------------------------------------------


def levee(folder, binary, server_port, defense, lifetime_s, capacity=1_000_000):
    """`levee run` in front of a server. `defense` is the body of [sip.defense]. Returns (process, port, health URL)."""

    def start():
        port, admin = free_port(), free_tcp_port()
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / "levee.toml").write_text(
            f"""drain = "1s"

[log]
level = "warn"

[admin]
listen = "127.0.0.1:{admin}"

[[sip]]
listen = ["udp:127.0.0.1:{port}"]
server = "udp:127.0.0.1:{server_port}"
capacity = {capacity}
seed = 1

[sip.defense]
{defense}

# Transactions stay for 32 s after a call: at thousands of calls a second the defaults would refuse.
[sip.limits]
transactions_max = 2000000
calls_max = 1000000
"""
        )
        process = Process("levee", [binary, "run", "levee.toml"], path, lifetime_s)
        health = f"http://127.0.0.1:{admin}/healthz"
        try:
            process.wait_until("health", lambda: http_ok(health) and udp_bound(port))
        except PeerError:
            process.stop()
            raise
        return process, port, health

    return retrying(start)


# --- SIPp ---------------------------------------------------------------------------------------------------------

# The plainest call there is, so that SIPp leaves the processor to the proxy: no log, no expressions. It rings for a
# moment, and talks for @TALK_MS@: several workers of one proxy may swap messages that are sent back to back, and a
# 180 after the 200, or a BYE before the ACK, would count as a failed call.
LOAD_CALLER = """<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="load">
  <send retrans="500">
    <![CDATA[
      INVITE sip:callee@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:load@[local_ip]:[local_port]>;tag=[pid]c[call_number]
      To: <sip:callee@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 1 INVITE
      Contact: <sip:load@[local_ip]:[local_port]>
      Max-Forwards: 70
      Content-Type: application/sdp
      Content-Length: [len]

      v=0
      o=- 1 1 IN IP4 [local_ip]
      s=-
      c=IN IP4 [local_ip]
      t=0 0
      m=audio 4000 RTP/AVP 0
      a=rtpmap:0 PCMU/8000
    ]]>
  </send>
  <recv response="100" optional="true"/>
  <recv response="180" optional="true"/>
  <recv response="200" rrs="true"/>
  <send>
    <![CDATA[
      ACK [next_url] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      [routes]
      From: <sip:load@[local_ip]:[local_port]>;tag=[pid]c[call_number]
      [last_To:]
      Call-ID: [call_id]
      CSeq: 1 ACK
      Max-Forwards: 70
      Content-Length: 0

    ]]>
  </send>
  <pause milliseconds="@TALK_MS@"/>
  <send retrans="500">
    <![CDATA[
      BYE [next_url] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      [routes]
      From: <sip:load@[local_ip]:[local_port]>;tag=[pid]c[call_number]
      [last_To:]
      Call-ID: [call_id]
      CSeq: 2 BYE
      Max-Forwards: 70
      Content-Length: 0

    ]]>
  </send>
  <recv response="100" optional="true"/>
  <recv response="200"/>
</scenario>
"""

LOAD_CALLEE = """<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="answer">
  <recv request="INVITE"/>
  <send>
    <![CDATA[
      SIP/2.0 180 Ringing
      [last_Via:]
      [last_Record-Route:]
      [last_From:]
      [last_To:];tag=[pid]s[call_number]
      [last_Call-ID:]
      [last_CSeq:]
      Contact: <sip:callee@[local_ip]:[local_port]>
      Content-Length: 0

    ]]>
  </send>
  <pause milliseconds="50"/>
  <send retrans="500">
    <![CDATA[
      SIP/2.0 200 OK
      [last_Via:]
      [last_Record-Route:]
      [last_From:]
      [last_To:];tag=[pid]s[call_number]
      [last_Call-ID:]
      [last_CSeq:]
      Contact: <sip:callee@[local_ip]:[local_port]>
      Content-Type: application/sdp
      Content-Length: [len]

      v=0
      o=- 1 1 IN IP4 [local_ip]
      s=-
      c=IN IP4 [local_ip]
      t=0 0
      m=audio 4002 RTP/AVP 0
      a=rtpmap:0 PCMU/8000
    ]]>
  </send>
  <recv request="ACK"/>
  <recv request="BYE"/>
  <send>
    <![CDATA[
      SIP/2.0 200 OK
      [last_Via:]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      [last_CSeq:]
      Content-Length: 0

    ]]>
  </send>
  <!-- Stays to answer a BYE that is sent again. -->
  <timewait milliseconds="1000"/>
</scenario>
"""


def sipp(name, folder, scenario, lifetime_s, args=()):
    """A SIPp process with statistics each second. Returns (process, port)."""

    def start():
        port, media = free_port(), free_media_port()
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{name}.xml").write_text(scenario)
        argv = [find("sipp", "sip-tester"), *args, "-sf", f"{name}.xml", "-i", "127.0.0.1", "-p", port, "-mp", media]
        argv += ["-nostdin", "-buff_size", SOCKET_BUFFER_BYTES, "-default_behaviors", "all,-bye"]
        argv += ["-trace_stat", "-stf", f"{name}.csv", "-fd", 1]
        # A file of an earlier run must not be taken for this one's.
        (path / f"{name}.csv").unlink(missing_ok=True)
        process = Process(name, argv, path, lifetime_s)
        try:
            process.wait_until("bound port", lambda: udp_bound(port))
        except PeerError:
            process.stop()
            raise
        return process, port

    return retrying(start)


def load_callee(folder, lifetime_s):
    return sipp("callee", folder, LOAD_CALLEE, lifetime_s)


def load_caller(folder, target_port, rate, calls, talk_ms, lifetime_s):
    scenario = LOAD_CALLER.replace("@TALK_MS@", str(talk_ms))
    args = [f"127.0.0.1:{target_port}", "-r", rate, "-m", calls, "-l", calls]
    return sipp("caller", folder, scenario, lifetime_s, args)


def stats(folder, name):
    """The rows of a SIPp process: totals by column, the last one the newest. A half-written row is left out."""
    try:
        text = (pathlib.Path(folder) / f"{name}.csv").read_text(errors="replace")
    except FileNotFoundError:
        return []
    whole = text[: text.rfind("\n") + 1]
    return list(csv.DictReader(whole.splitlines(), delimiter=";"))


def total(row, column):
    return int(row[f"{column}(C)"])
