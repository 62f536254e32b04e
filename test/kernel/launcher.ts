import { spawn } from 'node:child_process';

// A stand-in for a Jupyter server: starts a kernel as its child and lives until it is killed.
const kernel = spawn(process.execPath, process.argv.slice(2), { stdio: 'inherit' });
kernel.on('exit', (code) => process.exit(code ?? 1));
setInterval(() => {}, 1000);
