import { useCodeCache } from './code-cache';

// A thread imports this module first if the thread loads many modules, as a program does.
useCodeCache();
