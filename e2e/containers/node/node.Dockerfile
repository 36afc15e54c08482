# What kind's images/base/Dockerfile does, with Debian's own containerd, runc and CNI plugins.
# The context has kind/ (files of kind's module), root/ (ours) and the programs; BASE is a Debian root.
ARG BASE
FROM ${BASE}
COPY kind/ /
COPY root/ /
COPY kubeadm kubelet kubectl /usr/bin/
# Units that a container has no use for are taken out; rlimits are left to the machine, as kind does.
RUN ln -s /usr/bin/containerd /usr/bin/ctr /usr/local/bin/ \
 && mkdir -p /opt/cni /etc/kubernetes/manifests /usr/local/sbin \
 && ln -s /usr/lib/cni /opt/cni/bin \
 && find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete \
 && rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/* \
      /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/sockets.target.wants/*udev* \
      /lib/systemd/system/sockets.target.wants/*initctl* /lib/systemd/system/basic.target.wants/* \
 && echo ReadKMsg=no >> /etc/systemd/journald.conf \
 && systemctl enable kubelet.service containerd.service undo-mount-hacks.service \
 && systemctl mask systemd-binfmt.service \
 && ctr oci spec \
    | jq '.hooks.createContainer[.hooks.createContainer | length] |= . + {"path": "/kind/bin/mount-product-files.sh"} | del(.process.rlimits)' \
    > /etc/containerd/cri-base.json
ARG KUBERNETES_VERSION
RUN echo -n "$KUBERNETES_VERSION" > /kind/version
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
