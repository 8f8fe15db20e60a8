//! Captures of traffic: whose packets came to a site, and how many.

use std::io::Read;
use std::net::IpAddr;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use levee_policy::reroute::SiteId;
use pcap_parser::{Block as NgBlock, Linktype, PcapBlockOwned, PcapError};

use super::error::{At, Problem, ReadError};
use super::sink::Sink;
use super::{Form, LoadUnit};
use crate::map::Block;

/// Bytes of a packet or block at most. Captures cut packets at 256 KiB.
const BLOCK_MAX: usize = 1 << 20;
/// Interfaces of a capture at most.
const INTERFACES_MAX: usize = 4_096;
/// DNS.
const DNS_PORT: u16 = 53;

/// What a capture says of an interface.
#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    ticks_per_second: u64,
}

/// A packet as it was captured.
struct Packet<'a> {
    link: Linktype,
    bytes: &'a [u8],
    /// Its length before it was cut.
    length: u32,
    seconds: Option<u64>,
}

pub(super) fn read(reader: impl Read + Send, sink: &mut Sink<'_>) -> Result<(), ReadError> {
    sink.report.form = Form::Pcap;
    sink.report.off_address = Some(0);
    let file = |sink: &Sink<'_>, problem| sink.error(At::File, problem);
    if sink.options.service.is_empty() {
        return Err(file(sink, Problem::NoService));
    }
    let site = sink
        .site_of_file("a capture")
        .map_err(|problem| file(sink, problem))?;
    let mut reader = pcap_parser::create_reader(BLOCK_MAX, reader)
        .map_err(|error| file(sink, damaged(&error)))?;
    let mut interfaces: Vec<Interface> = Vec::new();
    loop {
        let record = At::Record(sink.report.records + 1);
        match reader.next() {
            Ok((bytes, block)) => {
                let packet = packet(&block, &mut interfaces);
                if let Some(packet) = packet {
                    sink.report.records += 1;
                    take(&packet, site, sink).map_err(|problem| sink.error(record, problem))?;
                }
                reader.consume(bytes);
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                let had = reader.data().len();
                let refilled = reader.refill().is_ok();
                if reader.data().len() > had {
                    continue;
                }
                let text = match (refilled, had) {
                    (true, 0) => return Ok(()),
                    (true, _) => "it ends inside a packet",
                    (false, _) => "it cannot be read further",
                };
                return sink.bad(record, Problem::Damaged(text.to_owned()));
            }
            Err(error) => {
                let problem = damaged(&error);
                return sink.bad(record, problem);
            }
        }
    }
}

fn damaged<I: std::fmt::Debug>(error: &PcapError<I>) -> Problem {
    let text = match error {
        PcapError::UnexpectedEof | PcapError::Incomplete(_) | PcapError::Eof => {
            "it ends inside a packet"
        }
        PcapError::BufferTooSmall => return Problem::TooLong { limit: BLOCK_MAX },
        PcapError::ReadError => "it cannot be read further",
        _ => "no packet begins here",
    };
    Problem::Damaged(text.to_owned())
}

/// The packet in a block, if there is one. Takes in what the block says of interfaces.
fn packet<'a>(
    block: &'a PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
) -> Option<Packet<'a>> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            interfaces.push(Interface {
                link: header.network,
                ticks_per_second: 1,
            });
            None
        }
        PcapBlockOwned::Legacy(packet) => Some(Packet {
            link: interfaces.first()?.link,
            bytes: packet.data,
            length: packet.origlen,
            seconds: Some(u64::from(packet.ts_sec)),
        }),
        PcapBlockOwned::NG(NgBlock::SectionHeader(_)) => {
            interfaces.clear();
            None
        }
        PcapBlockOwned::NG(NgBlock::InterfaceDescription(interface)) => {
            if interfaces.len() < INTERFACES_MAX {
                interfaces.push(Interface {
                    link: interface.linktype,
                    ticks_per_second: ticks(interface.if_tsresol),
                });
            }
            None
        }
        PcapBlockOwned::NG(NgBlock::EnhancedPacket(packet)) => {
            let interface = interfaces.get(packet.if_id as usize)?;
            let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            Some(Packet {
                link: interface.link,
                bytes: packet
                    .data
                    .get(..packet.caplen as usize)
                    .unwrap_or(packet.data),
                length: packet.origlen,
                seconds: Some(ticks / interface.ticks_per_second),
            })
        }
        PcapBlockOwned::NG(NgBlock::SimplePacket(packet)) => Some(Packet {
            link: interfaces.first()?.link,
            bytes: packet.data,
            length: packet.origlen,
            seconds: None,
        }),
        PcapBlockOwned::NG(_) => None,
    }
}

/// Of `if_tsresol`: a power of ten, or of two if the highest bit is set (pcapng, section 4.2).
fn ticks(resolution: u8) -> u64 {
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(u32::from(resolution & 0x7f))
        .unwrap_or(u64::MAX)
}

fn take(packet: &Packet<'_>, site: SiteId, sink: &mut Sink<'_>) -> Result<(), Problem> {
    if let Some(seconds) = packet.seconds {
        sink.time(seconds);
    }
    let Some(sliced) = slice(packet)? else {
        sink.report.other += 1;
        return Ok(());
    };
    let (from, to): (IpAddr, IpAddr) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        _ => {
            sink.report.other += 1;
            return Ok(());
        }
    };
    if !sink.is_service(to) {
        *sink.report.off_address.get_or_insert(0) += 1;
        return Ok(());
    }
    let load = match sink.options.unit {
        LoadUnit::Packets => 1.0,
        LoadUnit::Bytes => f64::from(packet.length),
        LoadUnit::Queries if is_query(&sliced) => 1.0,
        LoadUnit::Queries => {
            sink.report.other += 1;
            return Ok(());
        }
    };
    let block = Block::of(from);
    sink.load(block, load);
    sink.reply(block, site, None);
    Ok(())
}

/// Finds the IP header. `None` of what is none, or was cut before its end.
fn slice<'a>(packet: &Packet<'a>) -> Result<Option<LaxSlicedPacket<'a>>, Problem> {
    let bytes = packet.bytes;
    let tagged = |ether_type: Option<&[u8]>, rest: Option<&'a [u8]>| {
        let ether_type = u16::from_be_bytes(ether_type?.try_into().ok()?);
        Some(LaxSlicedPacket::from_ether_type(
            EtherType(ether_type),
            rest?,
        ))
    };
    Ok(match packet.link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => LaxSlicedPacket::from_ip(bytes).ok(),
        // A family of four bytes, which the version in the IP header says again.
        Linktype::NULL | Linktype::LOOP => bytes
            .get(4..)
            .and_then(|ip| LaxSlicedPacket::from_ip(ip).ok()),
        Linktype::LINUX_SLL => tagged(bytes.get(14..16), bytes.get(16..)),
        Linktype::LINUX_SLL2 => tagged(bytes.get(..2), bytes.get(20..)),
        Linktype(other) => return Err(Problem::Link(other)),
    })
}

fn is_query(packet: &LaxSlicedPacket<'_>) -> bool {
    match &packet.transport {
        Some(TransportSlice::Udp(udp)) => {
            // QR is the first bit of the third byte (RFC 1035, section 4.1.1). Cut before it, the port has to do.
            udp.destination_port() == DNS_PORT
                && udp.payload().get(2).is_none_or(|flags| flags & 0x80 == 0)
        }
        Some(TransportSlice::Tcp(tcp)) => {
            tcp.destination_port() == DNS_PORT && !tcp.payload().is_empty()
        }
        _ => false,
    }
}
