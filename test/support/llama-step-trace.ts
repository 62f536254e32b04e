import type { Layout } from '../../src/plan/layout';
import { type AllocatedBlock, CachingAllocator } from './caching-allocator';

const STREAM = { compute: 0, gather: 1, reduce: 2 } as const;

/** Tensors by name. */
type Tensors = Map<string, AllocatedBlock>;

interface Widths {
  readonly tokens: number;
  readonly dim: number;
  readonly part: number;
  readonly q: number;
  readonly kv: number;
  readonly ffn: number;
  readonly logits: number;
  readonly lse: number;
}

/** The tensors that a block stores until its backward. */
const KEPT = {
  eager: {
    none: ['x32', 'h1', 'n1', 'q', 'k', 'v', 'o', 'lse', 'y32', 'h2', 'n2', 'w1', 'silu', 'w3', 'product'],
    selective: ['q0', 'v0', 'o', 'lse', 'w1', 'w2', 'wo scattered', 'w2 scattered'],
    full: [],
  },
  compiled: {
    none: ['n1', 'q', 'k', 'v', 'o', 'lse', 'y', 'n2', 'w1', 'w3', 'product'],
    selective: ['q0', 'v0', 'o', 'lse', 'w1', 'wo scattered'],
    full: [],
  },
} as const;

/**
 * One rank's allocations in steps of a Llama under FSDP2, op by op in their order, replayed on a model of the allocator; the last step's peaks.
 * The replay does not use the planner's formulas: only sizes of tensors, and who frees them when.
 */
export function replayLlamaStep(layout: Layout, steps = 3) {
  const step = new LlamaStep(layout);
  for (let i = 0; i < steps; i++) step.run();
  const { peakReservedBytes, peakAllocatedBytes } = step.memory;
  return { reservedBytes: peakReservedBytes, allocatedBytes: peakAllocatedBytes };
}

class LlamaStep {
  readonly memory = new CachingAllocator();
  private readonly layout: Layout;
  private readonly widths: Widths;
  private readonly block: readonly number[];
  private readonly root: readonly number[];
  private hasOptimizer = false;

  constructor(layout: Layout) {
    const { model, tp, microBatch, sequenceParallel } = layout;
    const { dim, seq, heads, headDim, kvHeads, vocab } = model;
    this.layout = layout;
    const [q, kv, ffn] = [(heads * headDim) / tp, (kvHeads * headDim) / tp, model.ffn / tp];
    const tokens = seq * microBatch;
    const part = sequenceParallel ? dim / tp : dim;
    this.widths = { tokens, dim, part, q, kv, ffn, logits: vocab / tp, lse: heads / tp };
    this.block = [dim * q, dim * kv, dim * kv, dim * q, dim * ffn, dim * ffn, dim * ffn, dim, dim];
    this.root = [(vocab * dim) / tp, dim, (vocab * dim) / tp];
    for (const size of this.allParams()) this.take((4 * size) / layout.shards);
  }

  run(): void {
    this.memory.resetPeaks();
    const { layers } = this.layout.model;
    const { part } = this.widths;
    let gathered = this.gather(this.root);
    const root = this.whole(this.root);
    let x = this.values(2 * part);
    const kept: { input: AllocatedBlock | null; tensors: Tensors }[] = [];
    let whole: AllocatedBlock[] = [];
    for (let layer = 0; layer < layers; layer++) {
      const next = this.gather(this.block);
      this.memory.release(gathered);
      gathered = next;
      whole = this.whole(this.block);
      const { output, tensors } = this.forward(KEPT[this.mode][this.layout.recompute]);
      // The operations of an uncompiled norm store a copy of its input, not the input.
      const keepsInput = this.layout.recompute !== 'none' || this.layout.compile;
      kept.push({ input: keepsInput ? x : null, tensors });
      if (!keepsInput) this.memory.release(x);
      x = output;
      if (layer < layers - 1) this.releaseAll(whole);
    }
    this.memory.release(gathered);
    const { gradient, head } = this.loss(x);
    const grads = this.backward(gradient, kept, whole);
    this.end(root, head, grads);
  }

  private get mode(): 'eager' | 'compiled' {
    return this.layout.compile ? 'compiled' : 'eager';
  }

  private *allParams(): Generator<number> {
    for (let layer = 0; layer < this.layout.model.layers; layer++) yield* this.block;
    yield* this.root;
  }

  private take(bytes: number, stream: number = STREAM.compute): AllocatedBlock {
    return this.memory.allocate(bytes, stream);
  }

  /** `bytes` bytes for each token. */
  private values(bytes: number): AllocatedBlock {
    return this.take(bytes * this.widths.tokens);
  }

  private releaseAll(blocks: Iterable<AllocatedBlock>): void {
    for (const block of blocks) this.memory.release(block);
  }

  private gather(params: readonly number[]): AllocatedBlock {
    const bytes = 2 * params.reduce((sum, size) => sum + size, 0);
    const sent = this.take(bytes / this.layout.shards, STREAM.gather);
    const buffer = this.take(bytes, STREAM.gather);
    this.memory.release(sent);
    return buffer;
  }

  private whole(params: readonly number[]): AllocatedBlock[] {
    return params.map((size) => this.take(2 * size));
  }

  private forward(keep: readonly string[]): { output: AllocatedBlock; tensors: Tensors } {
    const tensors: Tensors = new Map();
    const { dim, part, q, kv, ffn, lse } = this.widths;
    const make = (name: string, bytes: number): void => void tensors.set(name, this.values(bytes));
    const drop = (...names: string[]): void => this.drop([tensors], names);
    const norm = (input: string, half: string, output: string): void => {
      if (this.mode === 'eager') {
        make(input, 4 * part);
        make('squares', 4 * part);
        drop('squares');
        make('scaled', 4 * part);
        make(half, 2 * part);
        drop('scaled');
      }
      make(output, 2 * dim);
    };
    norm('x32', 'h1', 'n1');
    make('q0', 2 * q);
    make('k0', 2 * kv);
    make('v0', 2 * kv);
    if (this.mode === 'eager') {
      for (const [name, width] of [
        ['q32', q],
        ['k32', kv],
        ['q turned', q],
        ['k turned', kv],
      ] as const) {
        make(name, 4 * width);
      }
    }
    make('q', 2 * q);
    make('k1', 2 * kv);
    drop('q32', 'k32', 'q turned', 'k turned');
    make('k', 2 * q);
    make('v', 2 * q);
    drop('k1', 'k0');
    make('o', 2 * q);
    make('lse', 4 * lse);
    make('wo', 2 * dim);
    if (part < dim) make('wo scattered', 2 * part);
    make('y', 2 * part);
    norm('y32', 'h2', 'n2');
    make('w1', 2 * ffn);
    if (this.mode === 'eager') make('silu', 2 * ffn);
    make('w3', 2 * ffn);
    make('product', 2 * ffn);
    make('w2', 2 * dim);
    if (part < dim) make('w2 scattered', 2 * part);
    const output = this.values(2 * part);
    drop(...[...tensors.keys()].filter((name) => !keep.includes(name)));
    return { output, tensors };
  }

  private drop(where: readonly Tensors[], names: readonly string[]): void {
    for (const tensors of where) {
      for (const name of names) {
        const block = tensors.get(name);
        if (block !== undefined) this.memory.release(block);
        tensors.delete(name);
      }
    }
  }

  private loss(x: AllocatedBlock): { gradient: AllocatedBlock; head: AllocatedBlock } {
    const { dim, part, logits } = this.widths;
    const saved = [this.values(4 * part), this.values(2 * part), this.values(2 * dim)];
    this.memory.release(x);
    const scores = this.values(2 * logits);
    let back: AllocatedBlock;
    if (this.layout.compile) {
      back = this.values(2 * logits);
      this.memory.release(scores);
    } else {
      back = this.eagerLoss(scores, logits);
    }
    const gradient = this.values(2 * dim);
    const head = this.take(2 * (this.root[2] ?? 0));
    this.memory.release(back);
    this.releaseAll(saved);
    return { gradient, head };
  }

  private eagerLoss(scores: AllocatedBlock, logits: number): AllocatedBlock {
    const copy = this.values(4 * logits);
    const isSplit = this.layout.tp > 1;
    const shifted = isSplit ? [this.values(4 * logits), this.values(4 * logits)] : [];
    this.releaseAll(shifted.slice(1));
    const logProbabilities = this.values(4 * logits);
    this.releaseAll([copy, scores, ...shifted.slice(0, 1)]);
    const one = this.values(4 * logits);
    const two = this.values(4 * logits);
    if (isSplit) {
      const three = this.values(4 * logits);
      this.memory.release(three);
    }
    this.releaseAll([one, logProbabilities]);
    const back = this.values(2 * logits);
    this.memory.release(two);
    return back;
  }

  private backward(
    gradient: AllocatedBlock,
    kept: { input: AllocatedBlock | null; tensors: Tensors }[],
    lastWhole: AllocatedBlock[],
  ): AllocatedBlock[] {
    const shards: AllocatedBlock[] = [];
    let [whole, back] = [lastWhole, gradient];
    let ahead: AllocatedBlock | null = null;
    let reducing: AllocatedBlock | null = null;
    const blockSize = this.block.reduce((sum, size) => sum + size, 0);
    for (let layer = kept.length - 1; layer >= 0; layer--) {
      if (ahead !== null) {
        whole = this.whole(this.block);
        this.memory.release(ahead);
      }
      ahead = layer > 0 ? this.gather(this.block) : null;
      const { input, tensors } = kept[layer] ?? { input: null, tensors: new Map() };
      const { grads, output } = this.blockBackward(tensors, back);
      back = output;
      if (input !== null) this.memory.release(input);
      this.releaseAll(whole);
      if (reducing !== null) this.memory.release(reducing);
      reducing = this.take(4 * blockSize);
      this.releaseAll(grads);
      shards.push(this.take((4 * blockSize) / this.layout.shards, STREAM.reduce));
    }
    if (reducing !== null) this.memory.release(reducing);
    this.memory.release(back);
    return shards;
  }

  private blockBackward(saved: Tensors, back: AllocatedBlock) {
    const isInHalves = this.mode === 'compiled' && this.layout.recompute === 'selective';
    const again = isInHalves ? this.feedForwardAgain() : this.blockAgain(saved);
    const { dim, part, q, kv, ffn } = this.widths;
    const drop = (...names: string[]): void => this.drop([saved, again], names);
    const grads: AllocatedBlock[] = [];
    const weight = (place: number): void => void grads.push(this.take(2 * (this.block[place] ?? 0)));
    const wide = part < dim ? this.values(2 * dim) : null;
    const product = this.values(2 * ffn);
    weight(5);
    drop('product');
    const silu = this.mode === 'eager' ? [this.values(2 * ffn)] : [];
    const up = this.values(2 * ffn);
    this.memory.release(product);
    drop('silu', 'w3');
    const gate = this.values(2 * ffn);
    this.releaseAll(silu);
    drop('w1');
    const inner = [this.values(2 * dim), this.values(2 * dim)];
    weight(4);
    weight(6);
    this.releaseAll([up, gate]);
    drop('n2');
    const middle = this.values(2 * part);
    this.releaseAll(inner);
    drop('y32', 'h2', 'y');
    if (isInHalves) this.attentionAgain(again);
    const attention = this.values(2 * q);
    weight(3);
    const heads = [this.values(2 * q), this.values(2 * q), this.values(2 * q)];
    this.memory.release(attention);
    drop('q', 'k', 'v', 'o', 'lse');
    const grouped = [this.values(2 * kv), this.values(2 * kv)];
    this.releaseAll(heads.slice(1));
    const outer = this.values(2 * dim);
    for (const place of [0, 1, 2]) weight(place);
    this.releaseAll([...heads.slice(0, 1), ...grouped]);
    drop('n1');
    const output = this.values(2 * part);
    this.releaseAll([outer, middle, back, ...(wide === null ? [] : [wide])]);
    drop(...saved.keys(), ...again.keys());
    weight(7);
    weight(8);
    return { grads, output };
  }

  /** A checkpointed block's forward, except the stored results. */
  private blockAgain(saved: Tensors): Tensors {
    const again: Tensors = new Map();
    if (this.layout.recompute === 'none') return again;
    const { output, tensors } = this.forward(KEPT[this.mode].none);
    this.memory.release(output);
    for (const [name, block] of tensors) {
      if (saved.has(name)) this.memory.release(block);
      else again.set(name, block);
    }
    return again;
  }

  /**
   * A compiled backward with a stored attention output computes the feed-forward again, and attention's inputs after that.
   * Source: the order of nodes in the backward graph of torch 2.13's partitioner for TorchTitan's block and policy.
   */
  private feedForwardAgain(): Tensors {
    const { part, dim, ffn } = this.widths;
    return new Map([
      ['y', this.values(2 * part)],
      ['n2', this.values(2 * dim)],
      ['w3', this.values(2 * ffn)],
      ['product', this.values(2 * ffn)],
    ]);
  }

  private attentionAgain(again: Tensors): void {
    const { dim, q } = this.widths;
    again.set('n1', this.values(2 * dim));
    for (const name of ['q', 'k', 'v']) again.set(name, this.values(2 * q));
  }

  /** The root's reduction, then the optimizer, whose states are allocated in the first step. */
  private end(root: AllocatedBlock[], head: AllocatedBlock, grads: AllocatedBlock[]): void {
    const { shards } = this.layout;
    const embedding = this.take(2 * (this.root[0] ?? 0));
    this.releaseAll(root);
    const size = this.root.reduce((sum, each) => sum + each, 0);
    const reducing = this.take(4 * size);
    this.releaseAll([embedding, head]);
    const last = this.take((4 * size) / shards, STREAM.reduce);
    this.memory.release(reducing);
    if (!this.hasOptimizer) {
      for (const each of this.allParams()) for (let i = 0; i < 2; i++) this.take((4 * each) / shards);
      this.hasOptimizer = true;
    }
    const roots = [...this.allParams()].map((each) => this.take((4 * each) / shards));
    this.releaseAll([...roots, last, ...grads]);
  }
}
