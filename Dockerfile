# For a box with NVIDIA GPUs; its steps are those of `make setup`, for running models:
#   docker build -t tokenmart .
#   docker run --gpus all -v "$PWD/data:/tokenmart/data" tokenmart extract --problem no4k
FROM python:3.12-slim-bookworm
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# a C compiler: Triton builds its launcher with it
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc=4:12.* libc6-dev=2.* make=4.* \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /tokenmart
COPY . .
RUN make .venv/.ready-to-run WITH=cuda,report && rm -rf /root/.cache
ENV PATH="/tokenmart/.venv/bin:$PATH"
ENTRYPOINT ["tokenmart"]
CMD ["doctor"]
