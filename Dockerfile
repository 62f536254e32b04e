# An image with JupyterLab, the kernel and the notebooks: docker build -t shardlab . && docker run --rm -p 8888:8888 shardlab
# First, `npm run wheel` makes the wheel that this file installs. See docs/how-to/install.md.
FROM python:3.12-slim-bookworm

RUN useradd --create-home --uid 1000 learner
COPY build/dist/*.whl /tmp/
RUN pip install --no-cache-dir /tmp/*.whl && rm /tmp/*.whl

USER learner
WORKDIR /home/learner
EXPOSE 8888
# Ranks exchange tensors through memfd, so the container's /dev/shm needs no size of its own.
CMD ["shardlab", "lab", "--ip", "0.0.0.0", "--no-browser"]
