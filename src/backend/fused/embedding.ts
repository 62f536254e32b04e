import * as tf from '../../core/tf';
import { given, offsetOf, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED, runForFirst } from './fused-kernel';

/** Rows of a table by index. Saves only the indices. */
export function registerEmbedding(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, given(info));
  replaceKernel(FUSED.embedding, () => ({ table, ids }) => {
    const [rows = 0, width = 0] = given(table).shape;
    const out = backend.makeOutput([...given(ids).shape, width], 'float32');
    kernels.takeRows(at(table), at(ids), at(out), sizeOf(given(ids).shape), rows, width);
    return out;
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
