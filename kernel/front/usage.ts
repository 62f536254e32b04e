import { readdirSync } from 'node:fs';
import { availableParallelism, cpus, freemem, hostname, totalmem } from 'node:os';
import { type Bytes, now, readIfThere, readProcessStat, type Seconds } from '../../src/core';
import type { JsonObject } from './wire';

/** A process of the kernel, at one moment. */
interface Used {
  readonly isRank: boolean;
  /** The process's share of the memory that it shares, and its own memory (PSS). */
  readonly bytes: Bytes;
  readonly cpu: Seconds;
}

/** Processor time at one moment. */
interface Mark {
  readonly at: Seconds;
  /** Of the kernel's processes. */
  readonly own: Seconds;
  /** Of the machine, and of this the time that cores were idle. */
  readonly host: Seconds;
  readonly idle: Seconds;
}

/**
 * Answers usage_request with the fields that ipykernel has, over all processes of the kernel: front, compiler, executor, ranks and
 * processes that cells have started. `ranks_memory` is the part of `kernel_memory` that ranks have. Like those of ipykernel,
 * percentages are for the time since the last request, and 0 in the first answer.
 */
export class Usage {
  #last: Mark | undefined;

  answer(): JsonObject {
    const used = processesOf(process.pid);
    const memory = (of: readonly Used[]): Bytes => of.reduce((sum, { bytes }) => sum + bytes, 0);
    const ranks = used.filter(({ isRank }) => isRank);
    const mark = markOf(used);
    const last = this.#last ?? mark;
    this.#last = mark;
    const [total, available] = [totalmem(), availableBytes()];
    return {
      status: 'ok',
      hostname: hostname(),
      pid: process.pid,
      kernel_cpu: percent(mark.own - last.own, mark.at - last.at),
      kernel_memory: memory(used),
      ranks: ranks.length,
      ranks_memory: memory(ranks),
      cpu_count: availableParallelism(),
      host_cpu_percent: percent(mark.host - mark.idle - (last.host - last.idle), mark.host - last.host),
      host_virtual_memory: {
        total,
        available,
        percent: percent(total - available, total),
        used: total - available,
        free: freemem(),
      },
    };
  }
}

function markOf(used: readonly Used[]): Mark {
  const times = cpus().map(({ times }) => times);
  const sum = (of: (time: (typeof times)[number]) => number): Seconds =>
    times.reduce((all, time) => all + of(time), 0) / 1e3;
  return {
    at: now(),
    own: used.reduce((all, { cpu }) => all + cpu, 0),
    host: sum(({ user, nice, sys, idle, irq }) => user + nice + sys + idle + irq),
    idle: sum(({ idle }) => idle),
  };
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((1000 * part) / whole) / 10;
}

/** Returns a process and all its descendants. */
function processesOf(root: number): Used[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    const parent = readProcessStat(Number(name))?.parent ?? -1;
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const processes: Used[] = [];
  const waiting = [root];
  for (let pid = waiting.pop(); pid !== undefined; pid = waiting.pop()) {
    processes.push(usedBy(pid));
    waiting.push(...(children.get(pid) ?? []));
  }
  return processes;
}

/** The program of a rank: of this library, or of PyTorch. */
const RANK = /\/launch\/rank\/main\.js\0|shardlab_torch/;

function usedBy(pid: number): Used {
  const memory = readIfThere(`/proc/${pid}/smaps_rollup`) ?? '';
  const command = readIfThere(`/proc/${pid}/cmdline`) ?? '';
  return {
    isRank: RANK.test(command),
    bytes: 1024 * Number(/^Pss:\s+(\d+) kB/m.exec(memory)?.[1] ?? 0),
    cpu: readProcessStat(pid)?.cpuSeconds ?? 0,
  };
}

/** Returns the memory that programs can get without swapping. Source: proc(5), MemAvailable */
function availableBytes(): Bytes {
  const kB = /^MemAvailable:\s+(\d+) kB/m.exec(readIfThere('/proc/meminfo') ?? '')?.[1];
  return kB === undefined ? freemem() : 1024 * Number(kB);
}
