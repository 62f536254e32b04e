import type { CollectiveOp, CommCause, MemoryCause, Space, SpanName } from '../../src/core/events';
import type { StepRecord } from '../../src/ledger/record';
import { Recorder } from '../../src/ledger/recorder';

/** The events of an FSDP step, on its own clock, in the shape of a real step but without its work. */
export interface Scenario {
  readonly rank: number;
  readonly world: number;
  readonly strategy: 'NO_SHARD' | 'SHARD_GRAD_OP' | 'FULL_SHARD';
  readonly step?: number;
  readonly layers?: number;
  /** Elements of one block and of the root. */
  readonly blockParams?: number;
  readonly rootParams?: number;
  /** Milliseconds on the wire for the whole gather of one block. */
  readonly wireMs?: number;
  /** Prefix of the blocks' names. */
  readonly blockName?: string;
  readonly curve?: boolean;
  /** Whether the next unit is gathered while one computes. Default true. */
  readonly prefetch?: boolean;
  /** Every n-th layer stores no activations and computes them again in backward; 0 (default): none does. */
  readonly recomputeEvery?: number;
  /** Whether the optimizer's states are on the host. */
  readonly offload?: boolean;
}

const MS = 1e-3;
const ACTIVATION = 2_097_152;

/** Plays one step into a recorder and gives its record. */
export function simulateStep(scenario: Scenario): StepRecord {
  return new Simulation(scenario).run();
}

/** The same step on all ranks, at slightly different times. */
export function simulateRanks(scenario: Omit<Scenario, 'rank'>): StepRecord[] {
  return Array.from({ length: scenario.world }, (_, rank) => simulateStep({ ...scenario, rank }));
}

class Simulation {
  private now = 100;
  private nextBuffer = 1;
  private number = 0;
  private wireFree = 0;
  private readonly recorder: Recorder;
  private readonly s: Required<Scenario>;
  private readonly layers: string[];

  constructor(scenario: Scenario) {
    this.s = {
      step: 3,
      layers: 4,
      blockParams: 198_272,
      rootParams: 270_592,
      wireMs: 1.2,
      blockName: 'blocks',
      curve: true,
      prefetch: true,
      recomputeEvery: 0,
      offload: false,
      ...scenario,
    };
    this.recorder = new Recorder(this.s, () => this.now);
    this.layers = Array.from({ length: this.s.layers }, (_, i) => `${this.s.blockName}.${i}`);
  }

  run(): StepRecord {
    const { recorder, s } = this;
    const shards = s.strategy === 'NO_SHARD' ? 1 : s.world;
    const params = s.rootParams + s.layers * s.blockParams;
    const size = Math.ceil(params / shards) * 4;
    this.hold(size, s.strategy === 'NO_SHARD' ? 'param.full' : 'param.shard', '');
    this.hold(size * 2, 'optimizer', '', s.offload ? 'host' : 'device');
    this.hold(2048, 'batch', '');
    recorder.beginStep(s.step);
    this.now += (0.1 + 0.02 * s.rank) * MS;
    const gradients = this.forwardAndBackward();
    this.optimizer(gradients);
    const bytes = recorder.liveBytes();
    const engineBytes = Object.values(bytes).reduce((sum, held) => sum + held, 0);
    return recorder.endStep({ loss: 7.6 - 0.1 * s.step, tokens: 256, engineBytes, curve: s.curve });
  }

  private forwardAndBackward(): number[] {
    const { s } = this;
    const saved = new Map<string, number[]>();
    const whole = new Map<string, number>();
    whole.set('', this.gather('', s.rootParams));
    for (const layer of this.layers) {
      whole.set(layer, this.gather(layer, s.blockParams));
      const results = this.compute('forward', layer, 1.6);
      saved.set(layer, this.isRecomputed(layer) ? this.keepFirst(results) : results);
      if (s.strategy === 'FULL_SHARD') this.release(whole, layer);
    }
    const stream = this.hold(ACTIVATION, 'temp', 'head');
    this.recorder.retagged(stream, { cause: 'temp', module: 'head', part: 'ring' });
    const logits = this.hold(3 * ACTIVATION, 'temp', 'head');
    this.span('loss', 'head', 1.4);
    this.drop(logits);
    this.drop(stream);
    const gradients: number[] = [];
    for (const layer of [...this.layers].reverse()) {
      if (s.strategy === 'FULL_SHARD') whole.set(layer, this.gather(layer, s.blockParams));
      const start = this.now;
      const again = this.isRecomputed(layer) ? this.compute('recompute', layer, 1.6) : [];
      this.span('backward', layer, 2.9, start);
      for (const buffer of [...again, ...(saved.get(layer) ?? [])]) this.drop(buffer);
      gradients.push(this.reduce(layer, s.blockParams));
      if (s.strategy !== 'NO_SHARD') this.release(whole, layer);
    }
    gradients.push(this.reduce('', s.rootParams));
    this.release(whole, '');
    return gradients;
  }

  private gather(module: string, params: number): number {
    const { s } = this;
    if (s.strategy === 'NO_SHARD') return 0;
    const buffer = this.hold(params * 4, 'param.full', module);
    this.collective(
      'allGather',
      'param',
      module,
      Math.ceil(params / s.world),
      module === '' || !s.prefetch ? 1 : 0.25,
    );
    return buffer;
  }

  private reduce(module: string, params: number): number {
    const { s } = this;
    const grad = this.hold(params * 4, 'grad.full', module);
    const op = s.strategy === 'NO_SHARD' ? 'allReduce' : 'reduceScatter';
    this.collective(op, 'grad', module, params, module === '' ? 1 : 0.1);
    if (s.strategy === 'NO_SHARD') return grad;
    const shard = this.hold(Math.ceil(params / s.world) * 4, 'grad.shard', module);
    this.drop(grad);
    return shard;
  }

  private optimizer(gradients: readonly number[]): void {
    this.collective('allReduce', 'norm', '', 1, 1);
    this.span('optimizer', '', 1.1);
    for (const buffer of gradients) this.drop(buffer);
  }

  private compute(name: SpanName, module: string, ms: number): number[] {
    const start = this.now;
    const buffers = [0, 1, 2].map((i) => {
      const temp = this.hold(ACTIVATION / 4, 'temp', module);
      this.now += (ms / 3) * MS;
      const kept = this.hold(ACTIVATION / 2, 'temp', `${module}.${i}`);
      this.recorder.retagged(kept, { cause: 'activation', module });
      this.drop(temp);
      return kept;
    });
    this.recorder.span({ kind: 'span', name, module, start, end: this.now });
    return buffers;
  }

  private span(name: SpanName, module: string, ms: number, start = this.now): void {
    this.now += ms * (1 + 0.03 * this.s.rank) * MS;
    this.recorder.span({ kind: 'span', name, module, start, end: this.now });
  }

  /** `exposed`: the share of its time for which the main thread waits. */
  private collective(
    op: CollectiveOp,
    cause: CommCause,
    module: string,
    count: number,
    exposed: number,
  ): void {
    const { s } = this;
    if (s.world === 1) return;
    const started = Math.max(this.now, this.wireFree);
    const elements = op === 'allGather' ? count * s.world : count;
    const seconds = (s.wireMs * Math.max(0.05, elements / s.blockParams) + 0.05) * MS;
    this.wireFree = started + seconds;
    const wait = exposed * (this.wireFree - this.now);
    const posted = this.now;
    if (exposed === 1) this.now = this.wireFree;
    this.recorder.collective({
      kind: 'collective',
      op,
      group: 'world',
      ranks: Array.from({ length: s.world }, (_, i) => i),
      number: ++this.number,
      dtype: 'float32',
      wireDType: 'float32',
      count,
      bytes: count * 4,
      wireBytes: Math.round((elements * 4 * (s.world - 1) * (op === 'allReduce' ? 2 : 1)) / s.world),
      cause,
      module,
      cell: undefined,
      line: undefined,
      async: exposed < 1,
      posted,
      started,
      ended: this.wireFree,
      exposed: exposed < 1 && module.endsWith('.0') ? wait : exposed === 1 ? wait : 0,
      progress: {
        free: posted,
        arrived: posted,
        lacked: 0,
        carried: seconds,
        resumed: this.wireFree,
        postedCpu: posted,
        resumedCpu: this.wireFree,
      },
    });
  }

  private isRecomputed(layer: string): boolean {
    const every = this.s.recomputeEvery;
    return every > 0 && (this.layers.indexOf(layer) + 1) % every === 0;
  }

  /** Drops all results of a layer except its first. */
  private keepFirst([first, ...rest]: readonly number[]): number[] {
    for (const buffer of rest) this.drop(buffer);
    return first === undefined ? [] : [first];
  }

  private hold(bytes: number, cause: MemoryCause, module: string, space: Space = 'device'): number {
    const buffer = this.nextBuffer++;
    this.recorder.allocated(buffer, bytes, 'float32', { cause, module }, space);
    return buffer;
  }

  private drop(buffer: number): void {
    this.recorder.freed(buffer);
  }

  private release(whole: Map<string, number>, module: string): void {
    const buffer = whole.get(module);
    if (buffer) this.drop(buffer);
    whole.delete(module);
  }
}
