import * as tf from '@tensorflow/tfjs';
import { ShardlabError } from '../../core/errors';
import { given, offsetOf, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED, runForFirst } from './fused-kernel';

/** Rows of a table by index. Saves the indices only. */
export function registerEmbedding(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, given(info));
  replaceKernel(FUSED.embedding, () => ({ table, ids }) => {
    const [rows = 0, width = 0] = given(table).shape;
    const out = backend.makeOutput([...given(ids).shape, width], 'float32');
    const bad = kernels.takeRows(at(table), at(ids), at(out), sizeOf(given(ids).shape), rows, width);
    if (bad < 0) return out;
    const id = backend.typedArrayFromHeap(given(ids))[bad];
    backend.disposeData(out.dataId);
    throw new ShardlabError(
      'SHAPE',
      `embedding: index ${id} at place ${bad} is outside of the table's ${rows} rows.`,
    );
  });
  replaceKernel(FUSED.embeddingGrad, () => ({ ids, dy }, attrs) => {
    const rows = Number(attrs.rows);
    const width = given(dy).shape.at(-1) ?? 1;
    const out = backend.makeOutput([rows, width], 'float32');
    kernels.fill(at(out), 0, rows * width);
    kernels.addToRows(at(out), at(ids), at(dy), sizeOf(given(ids).shape), rows, width);
    return out;
  });
  tf.registerGradient({
    kernelName: FUSED.embedding,
    inputsToSave: ['ids'],
    gradFunc: (dy, saved, attrs) => ({
      table: () => runForFirst(FUSED.embeddingGrad, { ids: given(saved[0]), dy: dy as tf.Tensor }, attrs),
    }),
  });
}
