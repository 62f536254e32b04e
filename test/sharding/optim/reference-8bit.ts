// 8-bit AdamW element by element, by its definition: the reference for the kernel.

/** The dynamic map as its authors build it: means of a linear grid in each decade, both signs, 0 and 1. */
export function referenceMap(signed: boolean): Float32Array {
  const values: number[] = [0, 1];
  for (let i = 0; i < 7; i++) {
    const items = signed ? 2 ** i + 1 : 2 ** (i + 1) + 1;
    const grid = Array.from({ length: items }, (_, k) => 0.1 + (0.9 * k) / (items - 1));
    for (let k = 0; k + 1 < items; k++) {
      const mean = ((grid[k] ?? 0) + (grid[k + 1] ?? 0)) / 2;
      values.push(10 ** (i - 6) * mean);
      if (signed) values.push(-(10 ** (i - 6)) * mean);
    }
  }
  return Float32Array.from(values).sort();
}

/** Index of the value nearest to x; of two equally near, the one nearer to 0. */
export function nearestIndex(map: Float32Array, x: number): number {
  let best = 0;
  map.forEach((value, i) => {
    const [d, least] = [Math.abs(value - x), Math.abs((map[best] ?? 0) - x)];
    if (d < least || (d === least && Math.abs(value) < Math.abs(map[best] ?? 0))) best = i;
  });
  return best;
}

/** Moments as codes with scales, and the step that updates them with the parameters. */
export class Reference8bit {
  readonly signed = referenceMap(true);
  readonly unsigned = referenceMap(false);
  readonly codes1: Uint8Array;
  readonly codes2: Uint8Array;
  readonly scales1: Float32Array;
  readonly scales2: Float32Array;
  readonly blockSize: number;

  constructor(size: number, blockSize: number) {
    this.blockSize = blockSize;
    this.codes1 = new Uint8Array(size);
    this.codes2 = new Uint8Array(size);
    this.scales1 = new Float32Array(Math.ceil(size / blockSize));
    this.scales2 = new Float32Array(Math.ceil(size / blockSize));
  }

  step(param: Float32Array, grad: Float32Array, t: number, hyper: Hyper): void {
    const f = Math.fround;
    const { lr, beta1, beta2, eps, weightDecay } = hyper;
    const keep = f(1 - lr * weightDecay);
    const stepSize = f(lr / (1 - beta1 ** t));
    const rootCorrection = f(1 / Math.sqrt(1 - beta2 ** t));
    const { m, v } = this.moments();
    for (let i = 0; i < param.length; i++) {
      const g = grad[i] ?? 0;
      m[i] = f(f(f(beta1) * (m[i] ?? 0)) + f(f(1 - beta1) * g));
      v[i] = f(f(f(beta2) * (v[i] ?? 0)) + f(f(1 - beta2) * f(g * g)));
      const below = f(f(f(Math.sqrt(v[i] ?? 0)) * rootCorrection) + f(eps));
      param[i] = f(f((param[i] ?? 0) * keep) - f(f(stepSize * (m[i] ?? 0)) / below));
    }
    this.#code(m, this.codes1, this.scales1, this.signed);
    this.#code(v, this.codes2, this.scales2, this.unsigned);
  }

  moments(): { readonly m: Float32Array; readonly v: Float32Array } {
    const decode = (codes: Uint8Array, scales: Float32Array, map: Float32Array): Float32Array =>
      Float32Array.from(codes, (code, i) => (map[code] ?? 0) * (scales[Math.floor(i / this.blockSize)] ?? 0));
    return {
      m: decode(this.codes1, this.scales1, this.signed),
      v: decode(this.codes2, this.scales2, this.unsigned),
    };
  }

  #code(values: Float32Array, codes: Uint8Array, scales: Float32Array, map: Float32Array): void {
    scales.forEach((_, block) => {
      const [from, to] = [block * this.blockSize, Math.min(values.length, (block + 1) * this.blockSize)];
      const scale = values.subarray(from, to).reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      scales[block] = scale;
      for (let i = from; i < to; i++) {
        codes[i] = nearestIndex(map, scale === 0 ? 0 : Math.fround((values[i] ?? 0) / scale));
      }
    });
  }
}

interface Hyper {
  readonly lr: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  readonly weightDecay: number;
}
