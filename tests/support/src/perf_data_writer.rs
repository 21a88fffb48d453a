// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(dead_code)] // each test program uses its part
//! Writes perf.data files whose every record a test knows: what a processor with branch records would have left.

/// Bits of sample_type and branch_sample_type that tests combine.
pub const IP: u64 = 1;
pub const TID: u64 = 1 << 1;
pub const TIME: u64 = 1 << 2;
pub const ADDR: u64 = 1 << 3;
pub const READ: u64 = 1 << 4;
pub const CALLCHAIN: u64 = 1 << 5;
pub const ID: u64 = 1 << 6;
pub const CPU: u64 = 1 << 7;
pub const PERIOD: u64 = 1 << 8;
pub const STREAM_ID: u64 = 1 << 9;
pub const RAW: u64 = 1 << 10;
pub const BRANCH_STACK: u64 = 1 << 11;
pub const REGS_USER: u64 = 1 << 12;
pub const STACK_USER: u64 = 1 << 13;
pub const WEIGHT: u64 = 1 << 14;
pub const IDENTIFIER: u64 = 1 << 16;
pub const CGROUP: u64 = 1 << 21;
pub const AUX: u64 = 1 << 20;
pub const WEIGHT_STRUCT: u64 = 1 << 24;

/// PERF_CONTEXT_*: what follows in a call chain ran in the kernel, in the program.
pub const CONTEXT_KERNEL: u64 = -128i64 as u64;
pub const CONTEXT_USER: u64 = -512i64 as u64;

/// Flags of a record: taken in the kernel, in the program, in the program of a guest.
pub const IN_KERNEL: u16 = 1;
pub const IN_USER: u16 = 2;
pub const IN_GUEST: u16 = 5;

pub const ANY: u64 = 1 << 3;
pub const ANY_CALL: u64 = 1 << 4;
pub const CALL_STACK: u64 = 1 << 11;
pub const DIRECT_CALL: u64 = 1 << 13;
pub const HW_INDEX: u64 = 1 << 17;
pub const COUNTERS: u64 = 1 << 19;

/// PERF_BR_*.
pub const UNTYPED: u64 = 0;
pub const CONDITIONAL: u64 = 1;
pub const JUMP: u64 = 2;
pub const INDIRECT_JUMP: u64 = 3;
pub const CALL: u64 = 4;
pub const INDIRECT_CALL: u64 = 5;
pub const RETURN: u64 = 6;
pub const SYSTEM_CALL: u64 = 7;

/// One entry of a branch stack.
#[derive(Debug, Clone, Copy)]
pub struct Branch {
    pub from: u64,
    pub to: u64,
    pub kind: u64,
    pub aborted: bool,
    /// On a path that the processor tried and gave up.
    pub wrong_path: bool,
}

impl Branch {
    pub fn new(from: u64, to: u64, kind: u64) -> Self {
        Self { from, to, kind, aborted: false, wrong_path: false }
    }
}

/// One event of the recording.
#[derive(Debug, Clone)]
pub struct Event {
    pub name: &'static str,
    /// PERF_TYPE_*, and the event of that type.
    pub of: (u32, u64),
    pub period: u64,
    pub sample_type: u64,
    pub branch_sample_type: u64,
    pub read_format: u64,
    pub id: u64,
}

/// A perf.data file to be written.
#[derive(Debug, Clone)]
pub struct PerfData {
    pub big_endian: bool,
    pub events: Vec<Event>,
    pub arch: Option<&'static str>,
    /// Of the samples that follow: their call chain, and the address that they are about.
    pub chain: Option<Vec<u64>>,
    pub about: u64,
    /// True if a pipe has the formats of tracepoints in it.
    pub tracing_data: bool,
    /// Path and build-id (up to 20 bytes) of the table of build-ids, and whether the size is written.
    pub build_ids: Vec<(String, Vec<u8>, bool)>,
    /// True for one of the files of a folder (`perf record --threads`).
    pub in_folder: bool,
    records: Vec<u8>,
}

impl PerfData {
    /// A recording of `branches:u` with branch stacks of every kind of branch.
    pub fn new() -> Self {
        let sample_type = IP | TID | TIME | PERIOD | BRANCH_STACK;
        let event = Event {
            name: "branches:u",
            of: (0, 4),
            period: 1000,
            sample_type,
            branch_sample_type: ANY,
            read_format: 0,
            id: 7,
        };
        Self {
            big_endian: false,
            events: vec![event],
            arch: Some("x86_64"),
            chain: None,
            about: u64::MAX,
            tracing_data: true,
            build_ids: Vec::new(),
            in_folder: false,
            records: Vec::new(),
        }
    }

    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }
    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }
    fn u64(&self, value: u64) -> [u8; 8] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn bit_field(&self, value: u64, first: u32, width: u32) -> u64 {
        value << if self.big_endian { 64 - first - width } else { first }
    }

    /// Appends a record of any kind; the body is taken as it is.
    pub fn raw(&mut self, kind: u32, misc: u16, body: &[u8]) {
        let head = [&self.u32(kind)[..], &self.u16(misc), &self.u16(body.len() as u16 + 8)].concat();
        self.records.extend(head);
        self.records.extend(body);
    }

    /// Appends bytes that are no record.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.records.extend(bytes);
    }

    fn with_trailer(&mut self, kind: u32, misc: u16, mut body: Vec<u8>, process: u32, time: u64) {
        body.resize(body.len().next_multiple_of(8), 0);
        let event = &self.events[0];
        for field in [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER] {
            if event.sample_type & field != 0 {
                let word = match field {
                    TID => [self.u32(process), self.u32(process)].concat(),
                    TIME => self.u64(time).to_vec(),
                    ID | IDENTIFIER => self.u64(event.id).to_vec(),
                    _ => self.u64(3).to_vec(),
                };
                body.extend(word);
            }
        }
        self.raw(kind, misc, &body);
    }

    pub fn comm(&mut self, process: u32, name: &str, exec: bool, time: u64) {
        let mut body = [self.u32(process), self.u32(process)].concat();
        body.extend(name.as_bytes());
        body.push(0);
        self.with_trailer(3, if exec { 1 << 13 } else { 0 }, body, process, time);
    }

    pub fn fork(&mut self, parent: u32, child: u32, time: u64) {
        let mut body = [child, parent, child, parent].map(|word| self.u32(word)).concat();
        body.extend(self.u64(time));
        self.with_trailer(7, 0, body, parent, time);
    }

    pub fn lost(&mut self, count: u64, time: u64) {
        let body = [self.u64(7), self.u64(count)].concat();
        self.with_trailer(2, 0, body, 0, time);
    }

    /// A mapping (start, length, offset in the file) with the file's build-id, or with a device and inode.
    pub fn mmap2(&mut self, process: u32, area: (u64, u64, u64), path: &str, build_id: &[u8], time: u64) {
        let mut body = [self.u32(process), self.u32(process)].concat();
        for word in [area.0, area.1, area.2] {
            body.extend(self.u64(word));
        }
        if build_id.is_empty() {
            body.extend([1u8; 24]);
        } else {
            body.extend([build_id.len() as u8, 0, 0, 0]);
            body.extend(build_id);
            body.resize(8 + 24 + 24, 0);
        }
        body.extend([self.u32(5), self.u32(2)].concat());
        body.extend(path.as_bytes());
        body.push(0);
        let misc = 2 | if build_id.is_empty() { 0 } else { 1 << 14 };
        self.with_trailer(10, misc, body, process, time);
    }

    /// A mapping as older kernels record it.
    pub fn mmap(&mut self, process: u32, area: (u64, u64, u64), path: &str, time: u64) {
        let mut body = [self.u32(process), self.u32(process)].concat();
        for word in [area.0, area.1, area.2] {
            body.extend(self.u64(word));
        }
        body.extend(path.as_bytes());
        body.push(0);
        self.with_trailer(1, if process == u32::MAX { 1 } else { 2 }, body, process, time);
    }

    /// A sample of the event of this index, with its branches newest first.
    pub fn sample_of(
        &mut self,
        event: usize,
        misc: u16,
        process: u32,
        time: u64,
        address: u64,
        branches: &[Branch],
    ) {
        let Event { sample_type, branch_sample_type, read_format, id, .. } = self.events[event].clone();
        let mut body = Vec::new();
        for field in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if sample_type & field != 0 {
                let word = match field {
                    TID => [self.u32(process), self.u32(process)].concat(),
                    TIME => self.u64(time).to_vec(),
                    IP => self.u64(address).to_vec(),
                    ID | IDENTIFIER => self.u64(id).to_vec(),
                    PERIOD => self.u64(1000).to_vec(),
                    ADDR => self.u64(self.about).to_vec(),
                    _ => self.u64(u64::MAX).to_vec(),
                };
                body.extend(word);
            }
        }
        if sample_type & READ != 0 {
            let times = (read_format & 3).count_ones() as usize;
            let each = 1 + (read_format & (4 | 16)).count_ones() as usize;
            let words = if read_format & 8 == 0 {
                vec![9; times + each]
            } else {
                [vec![2], vec![9; times + 2 * each]].concat()
            };
            body.extend(words.iter().flat_map(|word| self.u64(*word)));
        }
        if sample_type & CALLCHAIN != 0 {
            let chain = self.chain.clone().unwrap_or_else(|| vec![CONTEXT_USER, address]);
            body.extend(self.u64(chain.len() as u64));
            body.extend(chain.iter().flat_map(|word| self.u64(*word)));
        }
        if sample_type & RAW != 0 {
            body.extend(self.u32(12));
            body.extend([0xee; 12]);
        }
        if sample_type & BRANCH_STACK != 0 {
            body.extend(self.u64(branches.len() as u64));
            if branch_sample_type & HW_INDEX != 0 {
                body.extend(self.u64(0));
            }
            for branch in branches {
                let flags = self.bit_field(1, 1, 1)
                    | self.bit_field(u64::from(branch.aborted), 3, 1)
                    | self.bit_field(0xabc, 4, 16)
                    | self.bit_field(branch.kind, 20, 4)
                    | self.bit_field(u64::from(branch.wrong_path), 24, 2);
                body.extend([branch.from, branch.to, flags].iter().flat_map(|word| self.u64(*word)));
            }
            if branch_sample_type & COUNTERS != 0 {
                body.extend(vec![0x55; 8 * branches.len()]);
            }
        }
        // What follows the branch stack, in the kernel's order; 0 registers and a stack of 16 bytes, as of a thread without.
        for (field, words) in [
            (REGS_USER, &[0][..]),
            (STACK_USER, &[16, 1, 2, 16]),
            (WEIGHT, &[3]),
            (CGROUP, &[4]),
            (AUX, &[8, 5]),
            (WEIGHT_STRUCT, &[6]),
        ] {
            if sample_type & field != 0 {
                body.extend(words.iter().flat_map(|word| self.u64(*word)));
            }
        }
        self.raw(9, misc, &body);
    }

    /// A record of all that was appended since, as zstd leaves it in a frame that is never closed (of raw blocks), in records
    /// of at most so many bytes; the newer form says how many of them count.
    pub fn compress(&mut self, from: usize, piece: usize, newer: bool) {
        let plain = self.records.split_off(from);
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 9 << 3];
        for block in plain.chunks(100_000) {
            frame.extend(&((block.len() as u32) << 3).to_le_bytes()[..3]);
            frame.extend(block);
        }
        for piece in frame.chunks(piece) {
            if newer {
                let mut body = self.u64(piece.len() as u64).to_vec();
                body.extend(piece);
                body.resize(body.len().next_multiple_of(8), 0xaa);
                self.raw(83, 0, &body);
            } else {
                self.raw(81, 0, piece);
            }
        }
    }

    /// A recording of the same events, with no records yet.
    pub fn without_records(&self) -> Self {
        Self { records: Vec::new(), ..self.clone() }
    }

    /// Number of bytes of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The records, for another recording.
    pub fn records(&self) -> &[u8] {
        &self.records
    }

    /// The bytes as perf writes them to a pipe: what else stands in header and features is records.
    pub fn finish_pipe(&self) -> Vec<u8> {
        let mut head = self.without_records();
        for event in &self.events {
            let body = [self.attribute(event), self.u64(event.id).to_vec()].concat();
            head.raw(64, 0, &body);
        }
        for event in &self.events {
            let mut body = [self.u64(2), self.u64(event.id)].concat();
            body.extend(event.name.as_bytes());
            body.resize((body.len() + 1).next_multiple_of(8), 0);
            head.raw(78, 0, &body);
        }
        if self.tracing_data {
            // It follows its record.
            head.raw(66, 0, &self.u32(16));
            head.bytes(&[0xff; 16]);
        }
        if let Some(arch) = self.arch {
            head.raw(80, 0, &[self.u64(6).to_vec(), self.string(arch)].concat());
        }
        let mut file: Vec<u8> = if self.big_endian { b"2ELIFREP" } else { b"PERFILE2" }.to_vec();
        file.extend(self.u64(16));
        file.extend(&head.records);
        file.extend(&self.records);
        for entry in &self.build_ids {
            file.extend(self.build_id_entry(entry));
        }
        file
    }

    /// A sample of the first event in user space.
    pub fn sample(&mut self, process: u32, time: u64, address: u64, branches: &[Branch]) {
        self.sample_of(0, 2, process, time, address, branches);
    }

    /// The bytes of the file.
    pub fn finish(&self) -> Vec<u8> {
        const ATTRIBUTE: u64 = 112;
        const HEADER: u64 = 104;
        let count = self.events.len() as u64;
        let attributes_at = HEADER + 8 * count;
        let data_at = attributes_at + (ATTRIBUTE + 16) * count;
        let mut features = Vec::new();
        if !self.build_ids.is_empty() {
            let table: Vec<u8> = self.build_ids.iter().flat_map(|entry| self.build_id_entry(entry)).collect();
            features.push((2, table));
        }
        if let Some(arch) = self.arch {
            features.push((6, self.string(arch)));
        }
        features.push((12, self.event_description()));
        if self.in_folder {
            features.push((24, self.u64(1).to_vec()));
        }
        let bits = features.iter().fold(0u64, |bits, (bit, _)| bits | 1 << bit);

        let mut file = Vec::new();
        file.extend(if self.big_endian { b"2ELIFREP" } else { b"PERFILE2" });
        let (attributes_size, data_size) = ((ATTRIBUTE + 16) * count, self.records.len() as u64);
        for word in
            [HEADER, ATTRIBUTE + 16, attributes_at, attributes_size, data_at, data_size, 0, 0, bits, 0, 0, 0]
        {
            file.extend(self.u64(word));
        }
        for event in &self.events {
            file.extend(self.u64(event.id));
        }
        for (index, event) in self.events.iter().enumerate() {
            file.extend(self.attribute(event));
            file.extend(self.u64(HEADER + 8 * index as u64));
            file.extend(self.u64(8));
        }
        file.extend(&self.records);
        let mut at = file.len() as u64 + 16 * features.len() as u64;
        for (_, bytes) in &features {
            file.extend(self.u64(at));
            file.extend(self.u64(bytes.len() as u64));
            at += bytes.len() as u64;
        }
        for (_, bytes) in &features {
            file.extend(bytes);
        }
        file
    }

    fn attribute(&self, event: &Event) -> Vec<u8> {
        let flags = [1, 5, 8, 9, 18, 23, 24].iter().fold(0, |flags, bit| flags | self.bit_field(1, *bit, 1));
        let mut bytes = [self.u32(event.of.0), self.u32(112)].concat();
        for word in [
            event.of.1,
            event.period,
            event.sample_type,
            event.read_format,
            flags,
            0,
            0,
            0,
            event.branch_sample_type,
        ] {
            bytes.extend(self.u64(word));
        }
        bytes.resize(112, 0);
        bytes
    }

    fn string(&self, text: &str) -> Vec<u8> {
        let length = (text.len() + 1).next_multiple_of(64);
        let mut bytes = self.u32(length as u32).to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(4 + length, 0);
        bytes
    }

    fn event_description(&self) -> Vec<u8> {
        let mut bytes = [self.u32(self.events.len() as u32), self.u32(112)].concat();
        for event in &self.events {
            bytes.extend(self.attribute(event));
            bytes.extend(self.u32(1));
            bytes.extend(self.string(event.name));
            bytes.extend(self.u64(event.id));
        }
        bytes
    }

    fn build_id_entry(&self, (path, id, with_size): &(String, Vec<u8>, bool)) -> Vec<u8> {
        let path_length = (path.len() + 1).next_multiple_of(64);
        let misc = 2 | if *with_size { 1 << 15 } else { 0 };
        let mut bytes =
            [&self.u32(67)[..], &self.u16(misc), &self.u16((8 + 4 + 24 + path_length) as u16)].concat();
        bytes.extend(self.u32(u32::MAX));
        let mut padded = id.clone();
        padded.resize(20, 0);
        bytes.extend(padded);
        bytes.extend([if *with_size { id.len() as u8 } else { 0 }, 0, 0, 0]);
        bytes.extend(path.as_bytes());
        bytes.resize(8 + 4 + 24 + path_length, 0);
        bytes
    }
}
