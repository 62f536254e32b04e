import { writeFileSync } from 'node:fs';
import type { TrainConfig } from '../../src/config/train-config';
import { encodeHeader } from '../../src/training/checkpoint/format/safetensors-header';
import {
  type EncoderConfig,
  textEncoderOf,
} from '../../src/training/checkpoint/pretrained/text-encoder-model';

/** Writes the values that a config's text encoder has at the beginning, times `factor`, into a safetensors file. */
export function writeEncoder(config: TrainConfig, file: string, factor = 1): void {
  const { model, close } = textEncoderOf(config as EncoderConfig); // the tests' configs have an encoder
  const entries = [...model.text_encoder.namedState()];
  const { bytes, header, fileBytes } = encodeHeader(
    new Map(entries.map(([name, { shape }]) => [name, { dtype: 'F32', shape } as const])),
    { format: 'pt' },
  );
  const content = Buffer.alloc(fileBytes);
  content.set(bytes);
  for (const [name, { source }] of entries) {
    const { from = 0, to = 0 } = header.tensors.get(name) ?? {};
    const values = new Float32Array((to - from) / 4);
    source?.fill(0, values);
    content.set(new Uint8Array(values.map((value) => factor * value).buffer), header.dataStart + from);
  }
  close();
  writeFileSync(file, content);
}
