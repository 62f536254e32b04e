import { codeCachePath, recordCode } from '../src/core/code-cache/code-cache';

/**
 * The program that writes the code cache ([Note: code cache]). It loads the modules that ranks, notebooks and commands load. It
 * also trains for two steps, because V8 compiles a function at the function's first call. The argument `build` names the build.
 */
async function main(build: string): Promise<void> {
  const write = recordCode();
  // The modules must load after the recording has begun, so their imports are here and not at the top of the file.
  const names = await import('../src/index.js');
  for (const name of Object.keys(names)) Reflect.get(names, name); // a name's module loads when the name is first read
  void (await import('../src/launch/index.js')).startRank;
  await import('./executor/cell-runner.js');
  await import('./front/kernel.js');
  const { createWasmEngine } = await import('../src/engine/index.js');
  const { parseTrainConfig } = await import('../src/config/index.js');
  const { joinWorld } = await import('../src/wire/index.js');
  const { callSites } = await import('../src/wire/index.js');
  const { Recorder } = await import('../src/ledger/index.js');
  const { createTrainer } = await import('../src/training/index.js');
  const { now } = await import('../src/core/index.js');
  const engine = await createWasmEngine({ blas: 'none', threads: 1, searchPaths: [] });
  const observer = new Recorder({ rank: 0, world: 1 }, now);
  engine.observe(observer);
  const world = await joinWorld({
    rank: 0,
    world: 1,
    engine,
    observer,
    callSite: () => callSites.NO_SITE,
  });
  const config = parseTrainConfig({
    model: { kind: 'gpt', layers: 2, dim: 8, heads: 2, vocab: 16, seq: 4 },
    data: 'synthetic',
    parallel: { strategy: 'FULL_SHARD' },
    batch: 1,
    steps: 2,
  });
  const trainer = createTrainer({ engine, observer, group: world.group, config });
  for (let i = 0; i < config.steps; i++) trainer.step();
  trainer.dispose();
  await world.close();
  write(codeCachePath(), build);
}

void main(process.argv[2] ?? '').then(() => process.exit(0));
