import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { BUNDLE_FILE, planBundle, targetNamed } from '../../../src/programs/bundle/bundle';
import type { BuiltInBundleModel } from '../../../src/programs/export/target';

/** Writes a bundle whose weights and tokens are holes of files, so that a model of any size takes no disk. */
export function writeSparseBundle(
  out: string,
  input: TrainConfigInput,
  { machines, gpusPerMachine }: { readonly machines: number; readonly gpusPerMachine: number },
): void {
  const config = parseTrainConfig({ data: 'synthetic', batch: 1, steps: 2, ...input });
  const { facts } = planBundle(config, { to: 'torchrun', out, machines, gpusPerMachine });
  mkdirSync(join(out, 'data'), { recursive: true });
  for (const { path, text } of targetNamed('torchrun').files(facts)) writeFileSync(join(out, path), text);
  const known = { to: 'torchrun', machines, gpusPerMachine, config };
  writeFileSync(join(out, BUNDLE_FILE), JSON.stringify(known));
  const shape = modelShape(config) as BuiltInBundleModel; // planBundle has checked the kind
  writeHoles(join(out, 'model.safetensors'), ...weightsHeader(shape));
  const ranks = (machines * gpusPerMachine) / config.parallel.tp;
  writeHoles(join(out, 'data', 'tokens.npy'), ...tokensHeader([ranks, 2, 1, shape.seq + 1]));
}

function writeHoles(path: string, header: Buffer, numBytes: number): void {
  const file = openSync(path, 'w');
  writeSync(file, header);
  ftruncateSync(file, header.length + numBytes);
  closeSync(file);
}

function tokensHeader(shape: readonly number[]): [Buffer, number] {
  const text = `{'descr': '<i4', 'fortran_order': False, 'shape': (${shape.join(', ')}), }`;
  const padded = `${text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11)}\n`;
  const length = Buffer.alloc(2);
  length.writeUInt16LE(padded.length);
  const header = Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), length, Buffer.from(padded)]);
  return [header, 4 * shape.reduce((product, size) => product * size, 1)];
}

function weightsHeader(shape: BuiltInBundleModel): [Buffer, number] {
  let end = 0;
  const entries = Object.entries(weightShapes(shape)).map(([name, sizes]) => {
    const begin = end;
    end += 4 * sizes.reduce((product, size) => product * size, 1);
    return [name, { dtype: 'F32', shape: sizes, data_offsets: [begin, end] }];
  });
  const text = JSON.stringify(Object.fromEntries(entries));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return [Buffer.concat([length, Buffer.from(text)]), end];
}

function weightShapes(shape: BuiltInBundleModel): Record<string, readonly number[]> {
  const { vocab, seq, dim, layers, tied } = shape;
  const numbers = Array.from({ length: layers }, (_, i) => i);
  const head = tied ? {} : { 'lm_head.weight': [vocab, dim] };
  if (shape.kind === 'gpt') {
    const ffn = shape.ffn ?? 4 * dim;
    const linear = (name: string, out: number, into: number) => ({
      [`${name}.weight`]: [out, into],
      [`${name}.bias`]: [out],
    });
    const norm = (name: string) => ({ [`${name}.weight`]: [dim], [`${name}.bias`]: [dim] });
    const blocks = numbers.map((i) => ({
      ...norm(`blocks.${i}.ln1`),
      ...norm(`blocks.${i}.ln2`),
      ...linear(`blocks.${i}.qkv`, 3 * dim, dim),
      ...linear(`blocks.${i}.proj`, dim, dim),
      ...linear(`blocks.${i}.fc1`, ffn, dim),
      ...linear(`blocks.${i}.fc2`, dim, ffn),
    }));
    return Object.assign(
      { 'wte.weight': [vocab, dim], 'wpe.weight': [seq, dim] },
      ...blocks,
      norm('ln_f'),
      head,
    );
  }
  const { kvHeads = shape.heads, ffn = 4 * dim, heads } = shape;
  const narrow = (dim / heads) * kvHeads;
  const blocks = numbers.map((i) => ({
    [`model.layers.${i}.self_attn.q_proj.weight`]: [dim, dim],
    [`model.layers.${i}.self_attn.o_proj.weight`]: [dim, dim],
    [`model.layers.${i}.self_attn.k_proj.weight`]: [narrow, dim],
    [`model.layers.${i}.self_attn.v_proj.weight`]: [narrow, dim],
    [`model.layers.${i}.mlp.gate_proj.weight`]: [ffn, dim],
    [`model.layers.${i}.mlp.up_proj.weight`]: [ffn, dim],
    [`model.layers.${i}.mlp.down_proj.weight`]: [dim, ffn],
    [`model.layers.${i}.input_layernorm.weight`]: [dim],
    [`model.layers.${i}.post_attention_layernorm.weight`]: [dim],
  }));
  return Object.assign(
    { 'model.embed_tokens.weight': [vocab, dim], 'model.norm.weight': [dim] },
    ...blocks,
    head,
  );
}
