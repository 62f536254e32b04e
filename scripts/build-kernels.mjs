import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './lib/places.mjs';
import { mustRun } from './lib/run.mjs';
import { runMain } from './lib/step.mjs';

/**
 * Compiles src/<folder>/kernels/assembly/index.ts (AssemblyScript, with the options of asconfig.json beside it)
 * to <build>/src/<folder>/kernels/kernels.wasm for every folder with kernels, if the result is older than its sources. A
 * folder here is a room of a flat: engine/backend.
 */
export async function buildKernels(clone, build) {
  const rooms = readdirSync(join(clone, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.name === 'kernels' && entry.isDirectory())
    .map(({ parentPath }) => relative(join(clone, 'src'), parentPath));
  for (const room of rooms) {
    const assembly = join(clone, 'src', room, 'kernels', 'assembly');
    if (!existsSync(join(assembly, 'index.ts'))) continue;
    const output = join(build, 'src', room, 'kernels', 'kernels.wasm');
    if (isNewer(output, assembly)) continue;
    mkdirSync(dirname(output), { recursive: true });
    const config = join(assembly, 'asconfig.json');
    await mustRun(
      process.execPath,
      [
        join(clone, 'node_modules', 'assemblyscript', 'bin', 'asc.js'),
        join(assembly, 'index.ts'),
        ...(existsSync(config) ? ['--config', config] : ['-O3', '--runtime', 'stub', '--enable', 'simd']),
        '--outFile',
        output,
      ],
      { cwd: assembly },
      `The WebAssembly kernels of src/${room} do not compile.`,
      'correct the lines named above and run the command again',
    );
  }
}

function isNewer(output, folder) {
  if (!existsSync(output)) return false;
  const made = statSync(output).mtimeMs;
  return readdirSync(folder).every((name) => statSync(join(folder, name)).mtimeMs < made);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await runMain(() => buildKernels(root, process.argv[2] ?? join(root, 'build')));
}
