import type { Layout } from '../../src/planner/layout';
import { type AllocatedBlock, CachingAllocator } from './caching-allocator';

export const STREAM = { compute: 0, gather: 1, reduce: 2 } as const;

/** Tensors by name. */
export type Tensors = Map<string, AllocatedBlock>;

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
export const KEPT = {
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

/** The allocations of one block of a Llama under FSDP2 on one rank, op by op in their order. */
export class LlamaBlock {
  readonly memory = new CachingAllocator();
  protected readonly layout: Layout;
  protected readonly widths: Widths;
  protected readonly block: readonly number[];

  constructor(layout: Layout) {
    const { model, tp, microBatch, sequenceParallel } = layout;
    const { dim, seq, heads, headDim, kvHeads, vocab } = model;
    this.layout = layout;
    const [q, kv, ffn] = [(heads * headDim) / tp, (kvHeads * headDim) / tp, model.ffn / tp];
    const tokens = seq * microBatch;
    const part = sequenceParallel ? dim / tp : dim;
    this.widths = { tokens, dim, part, q, kv, ffn, logits: vocab / tp, lse: heads / tp };
    this.block = [dim * q, dim * kv, dim * kv, dim * q, dim * ffn, dim * ffn, dim * ffn, dim, dim];
  }

  protected get mode(): 'eager' | 'compiled' {
    return this.layout.compile ? 'compiled' : 'eager';
  }

  protected take(bytes: number, stream: number = STREAM.compute): AllocatedBlock {
    return this.memory.allocate(bytes, stream);
  }

  /** `bytes` bytes for each token. */
  protected values(bytes: number): AllocatedBlock {
    return this.take(bytes * this.widths.tokens);
  }

  protected releaseAll(blocks: Iterable<AllocatedBlock>): void {
    for (const block of blocks) this.memory.release(block);
  }

  protected gather(params: readonly number[]): AllocatedBlock {
    const bytes = 2 * params.reduce((sum, size) => sum + size, 0);
    const sent = this.take(bytes / this.layout.shards, STREAM.gather);
    const buffer = this.take(bytes, STREAM.gather);
    this.memory.release(sent);
    return buffer;
  }

  protected whole(params: readonly number[]): AllocatedBlock[] {
    return params.map((size) => this.take(2 * size));
  }

  protected forward(keep: readonly string[]): { output: AllocatedBlock; tensors: Tensors } {
    const tensors = this.forwardToProduct();
    const { dim, part } = this.widths;
    tensors.set('w2', this.values(2 * dim));
    this.scatterTokens(() => tensors.set('w2 scattered', this.values(2 * part)));
    const output = this.values(2 * part);
    this.drop(
      [tensors],
      [...tensors.keys()].filter((name) => !keep.includes(name)),
    );
    return { output, tensors };
  }

  /** A block's forward up to the input of its last matmul: a recompute ends here, because backward needs no more. */
  private forwardToProduct(): Tensors {
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
      this.gatherTokens(() => make(output, 2 * dim));
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
    this.scatterTokens(() => make('wo scattered', 2 * part));
    make('y', 2 * part);
    norm('y32', 'h2', 'n2');
    make('w1', 2 * ffn);
    if (this.mode === 'eager') make('silu', 2 * ffn);
    make('w3', 2 * ffn);
    make('product', 2 * ffn);
    return tensors;
  }

  /** Gathers the sequence (dim 1): the gathered parts are joined in a copy. Source: torch's _functional_collectives.all_gather_tensor. */
  private gatherTokens(join: () => void): void {
    const { dim, part } = this.widths;
    const parts = part < dim ? [this.values(2 * part), this.values(2 * dim)] : [];
    join();
    this.releaseAll(parts);
  }

  /** Scatters the sequence: the parts are first copied one after the other. Source: reduce_scatter_tensor, as above. */
  private scatterTokens(scatter: () => void): void {
    const { dim, part } = this.widths;
    if (part === dim) return;
    const parts = this.values(2 * dim);
    scatter();
    this.memory.release(parts);
  }

  protected drop(where: readonly Tensors[], names: readonly string[]): void {
    for (const tensors of where) {
      for (const name of names) {
        const block = tensors.get(name);
        if (block !== undefined) this.memory.release(block);
        tensors.delete(name);
      }
    }
  }

  protected blockBackward(saved: Tensors, back: AllocatedBlock) {
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
  protected blockAgain(saved: Tensors): Tensors {
    const again: Tensors = new Map();
    if (this.layout.recompute === 'none') return again;
    const keep: readonly string[] = KEPT[this.mode].none;
    for (const [name, block] of this.forwardToProduct()) {
      if (saved.has(name) || !keep.includes(name)) this.memory.release(block);
      else again.set(name, block);
    }
    return again;
  }

  /**
   * A compiled backward with a stored attention output computes the feed-forward again, and attention's inputs after that.
   * Source: the order of nodes in the backward graph of torch 2.13's partitioner for TorchTitan's block and policy.
   */
  protected feedForwardAgain(): Tensors {
    const { part, dim, ffn } = this.widths;
    return new Map([
      ['y', this.values(2 * part)],
      ['n2', this.values(2 * dim)],
      ['w3', this.values(2 * ffn)],
      ['product', this.values(2 * ffn)],
    ]);
  }

  protected attentionAgain(again: Tensors): void {
    const { dim, q } = this.widths;
    again.set('n1', this.values(2 * dim));
    for (const name of ['q', 'k', 'v']) again.set(name, this.values(2 * q));
  }
}
