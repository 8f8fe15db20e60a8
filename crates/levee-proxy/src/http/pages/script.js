(() => {
  "use strict";
  const page = document.currentScript.dataset;
  const line = document.getElementById("line");
  const say = (text) => { line.textContent = text; };
  const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
  const until = performance.now() + Number(page.life);
  let ticket = page.ticket;
  let price = Number(page.price);

  // Whoever pays for each byte, or asks for few, pays little.
  const link = navigator.connection || {};
  const isMetered = link.saveData === true || link.type === "cellular";
  let budget = isMetered ? Number(page.metered) : Infinity;

  async function post(bytes, signal) {
    const answer = await fetch(page.pay, {
      method: "POST", cache: "no-store", signal,
      headers: { "Levee-Ticket": ticket, "Content-Type": "application/octet-stream" },
      body: bytes,
    });
    budget -= bytes.length;
    return answer;
  }

  // One POST after the other: until the place is won, or until the price is paid.
  async function pay(signal) {
    const block = new Uint8Array(Number(page.block));
    while (!signal.aborted) {
      // The request itself is one of the retries that it takes.
      const missing = page.mode === "priced" ? (price - 1 - Number(page.paid)) * Number(page.size) : Infinity;
      const bytes = Math.min(missing, budget, block.length);
      if (bytes <= 0) return;
      try {
        const answer = await post(block.subarray(0, bytes), signal);
        if (answer.ok) note(answer);
        else await sleep(500);
      } catch {
        if (!signal.aborted) await sleep(500);
      }
    }
  }

  // A number with which SHA-256 of "ticket:number" begins with enough zero bits.
  async function work() {
    const bits = Math.min(Math.max(Math.ceil(Math.log2(Math.max(price - Number(page.paid), 2))), 1), 40);
    const head = new TextEncoder().encode(ticket + ":");
    for (let nonce = 0; performance.now() < until;) {
      const pause = performance.now() + 30;
      while (performance.now() < pause) {
        for (let i = 0; i < 256; i++, nonce++) {
          if (zeros(sha256(head, String(nonce))) >= bits) return String(nonce);
        }
      }
      await sleep(0);
    }
    return "0";
  }

  // What an answer says of the ticket and the price.
  function note(answer) {
    ticket = answer.headers.get("Levee-Ticket") || ticket;
    const [now, ...more] = (answer.headers.get("Levee-Price") || "").split(";");
    if (now !== "") price = Number(now);
    for (const each of more) {
      const [name, value] = each.trim().split("=");
      if (name === "paid") page.paid = value;
      if (name === "place") say(`There are about ${value} before you.`);
    }
  }

  // Whether the cookie that takes the place to the reload was kept. A frame of another site has none, and may not even ask.
  function hasCookie() {
    try {
      return document.cookie.includes(ticket);
    } catch {
      return false;
    }
  }

  function enter() {
    if (hasCookie()) {
      location.reload();
    } else {
      const target = new URL(location.href);
      target.searchParams.set(page.parameter, ticket);
      location.replace(target);
    }
  }

  async function run() {
    while (performance.now() < until) {
      const headers = { "Levee-Ticket": ticket };
      if (page.mode === "proof-of-work") headers["Levee-Pay"] = await work();
      headers["Levee-Ticket"] = ticket;
      const over = new AbortController();
      if (page.mode === "auction" || page.mode === "priced") pay(over.signal);
      let pause = 1000;
      try {
        const answer = await fetch(page.wait, { headers, cache: "no-store" });
        note(answer);
        if (answer.ok) return enter();
        if (answer.status !== 503) break;
        pause = Number(answer.headers.get("Retry-After") || 1) * 1000;
      } catch {
        // The network, or a restart: once more.
      } finally {
        over.abort();
      }
      await sleep(pause);
    }
    say(page.sorry);
    document.getElementById("again").hidden = false;
  }

  const K = new Uint32Array(64);
  const H = new Uint32Array(8);
  {
    // The first 32 bits of the fractions of roots of the first primes (FIPS 180-4 sections 4.2.2 and 5.3.3).
    const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32);
    for (let n = 2, i = 0; i < 64; n++) {
      let isPrime = true;
      for (let d = 2; d * d <= n; d++) if (n % d === 0) isPrime = false;
      if (!isPrime) continue;
      if (i < 8) H[i] = fraction(Math.sqrt(n));
      K[i++] = fraction(Math.cbrt(n));
    }
  }

  // SHA-256 of head and text, which together are shorter than 120 bytes.
  const bytes = new Uint8Array(128);
  const view = new DataView(bytes.buffer);
  const W = new Uint32Array(64);
  function sha256(head, text) {
    const length = head.length + text.length;
    const blocks = length < 56 ? 1 : 2;
    bytes.fill(0);
    bytes.set(head);
    for (let i = 0; i < text.length; i++) bytes[head.length + i] = text.charCodeAt(i);
    bytes[length] = 0x80;
    view.setUint32(blocks * 64 - 4, length * 8);
    const h = new Uint32Array(H);
    for (let block = 0; block < blocks; block++) {
      for (let i = 0; i < 16; i++) W[i] = view.getUint32(block * 64 + i * 4);
      for (let i = 16; i < 64; i++) {
        const x = W[i - 15], y = W[i - 2];
        const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ (x >>> 3);
        const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ (y >>> 10);
        W[i] = W[i - 16] + s0 + W[i - 7] + s1;
      }
      let [a, b, c, d, e, f, g, k] = h;
      for (let i = 0; i < 64; i++) {
        const s1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7);
        const t1 = (k + s1 + ((e & f) ^ (~e & g)) + K[i] + W[i]) | 0;
        const s0 = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10);
        const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        k = g; g = f; f = e; e = (d + t1) | 0;
        d = c; c = b; b = a; a = (t1 + t2) | 0;
      }
      h[0] += a; h[1] += b; h[2] += c; h[3] += d;
      h[4] += e; h[5] += f; h[6] += g; h[7] += k;
    }
    return h;
  }

  function zeros(hash) {
    let bits = 0;
    for (const word of hash) {
      bits += Math.clz32(word);
      if (word !== 0) break;
    }
    return bits;
  }

  run();
})();
